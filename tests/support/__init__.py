"""What tests of several packages share. Nothing of the product needs it."""
