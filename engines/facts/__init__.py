"""What engines' own routes say of their stacks: one small file per engine, ``gather`` to ask, ``reading`` for what they share."""
