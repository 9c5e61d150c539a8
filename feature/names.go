package feature

// Gates that this server asks for. Each says in the table what it changes.
const (
	StrictIPCIDRValidation Gate = "StrictIPCIDRValidation"
)
