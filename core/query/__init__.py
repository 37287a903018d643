"""The filter language, such as `name:train* status:failed since:7d mem>4G`: parsing, conditions, completion. Pure."""
