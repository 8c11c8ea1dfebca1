"""The parts of the HTML report: from the report's dict to sentences, charts and tables."""
