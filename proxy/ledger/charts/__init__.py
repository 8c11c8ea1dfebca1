"""Charts as SVG: values in, markup out."""
