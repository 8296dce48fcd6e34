"""Results for people: how numbers are written, the files `autotriton optimize` leaves, a short page among them."""
