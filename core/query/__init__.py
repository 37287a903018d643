"""The filter language: `name:train* status:failed since:7d mem>4G`, from text to conditions. Pure."""
