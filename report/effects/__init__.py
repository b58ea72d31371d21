"""What a change does to nodes and to what runs on them; `report.effects.order` puts it together."""
