"""The screen: the only package that knows Textual."""
