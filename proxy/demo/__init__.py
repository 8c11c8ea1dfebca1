"""``parhelion demo``: two real engines on one real small model, real prompts through the real proxy."""
