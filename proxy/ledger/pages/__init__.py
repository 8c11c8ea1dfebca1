"""The pages of the admin port for people: one module a page, made of ``view`` (pure: what a template gets) and a handler; ``routes`` lists them."""
