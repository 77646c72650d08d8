"""Defines the screens: pages of the present and of the past, a log, a plan, help, and the dialogs over them."""
