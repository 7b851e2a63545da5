"""What is known of the numbers of a launch: what answers say of each other, and numbers that give them."""
