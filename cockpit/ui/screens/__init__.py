"""What fills the terminal: pages of now and of the past, a log, a plan, help, and the dialogs over them."""
