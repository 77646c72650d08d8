"""What an operator can do to a cluster: one module for each act, or family of acts; how they are carried out, said, and written down."""
