"""Files and pages that the engine writes, whatever they hold."""
