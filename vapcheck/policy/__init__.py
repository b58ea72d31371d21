"""ValidatingAdmissionPolicies and bindings: read, compiled and type-checked."""
