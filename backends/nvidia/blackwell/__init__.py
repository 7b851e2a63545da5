"""What sm_100a and sm_103a have instead of wgmma: tensor memory and tcgen05 (docs/blackwell.md)."""
