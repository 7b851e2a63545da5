"""Loop schedules as data: what one is, what a loop allows, who checks it, who writes the loop (docs/schedule.md)."""
