"""What a session tells about itself: estimates, floors, drift, agreement, doubtful answers."""
