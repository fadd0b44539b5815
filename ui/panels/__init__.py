"""The panels beside the card on the Label page, each in a module with a function `show`, and the sentences in them."""
