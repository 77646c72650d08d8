"""The pages of the documentation that are made from the code, and what mkdocs needs to make the rest."""
