package feature

// Gates that this server asks for. Each says in the table what it changes.
const (
	ClusterTrustBundle        Gate = "ClusterTrustBundle"
	CompositePodGroup         Gate = "CompositePodGroup"
	CoordinatedLeaderElection Gate = "CoordinatedLeaderElection"
	DRADeviceTaintRules       Gate = "DRADeviceTaintRules"
	DRAResourcePoolStatus     Gate = "DRAResourcePoolStatus"
	EvictionRequestAPI        Gate = "EvictionRequestAPI"
	GenericWorkload           Gate = "GenericWorkload"
	MutatingAdmissionPolicy   Gate = "MutatingAdmissionPolicy"
	PodCertificateRequest     Gate = "PodCertificateRequest"
	StorageVersionAPI         Gate = "StorageVersionAPI"
	StorageVersionMigrator    Gate = "StorageVersionMigrator"
	StrictIPCIDRValidation    Gate = "StrictIPCIDRValidation"
)
