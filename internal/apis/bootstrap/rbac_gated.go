package bootstrap

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/feature"
)

// gatedRole is a condition for the existence of a default role, or of a resource in its rules. The condition is
// a range of minor versions, a feature gate, or both.
type gatedRole struct {
	// role is the name of the role, or "" for all roles.
	role string
	// group and resource select the resource that is removed from the rules if the condition is not
	// satisfied. If group is empty, the role and its bindings are removed.
	group, resource string
	gate            feature.Gate // "" requires no gate
	first, last     int          // minor versions; 0 sets no limit
}

// gatedRoles returns the conditions for the default roles, as in the bootstrap policy of kube-apiserver. A
// resource without a slash includes its subresources.
func gatedRoles() []gatedRole {
	const (
		resourceGroup     = "resource.k8s.io"
		certificatesGroup = "certificates.k8s.io"
		allocation        = "DynamicResourceAllocation"
	)
	return []gatedRole{
		{group: resourceGroup, resource: "*", gate: allocation},
		{group: resourceGroup, resource: "devicetaintrules", gate: feature.DRADeviceTaintRules},
		{group: resourceGroup, resource: "resourceclaims/binding", gate: feature.DRAResourceClaimGranularStatusAuthorization},
		{group: certificatesGroup, resource: "clustertrustbundles", gate: feature.ClusterTrustBundle},
		{group: certificatesGroup, resource: "podcertificaterequests", gate: feature.PodCertificateRequest},
		{role: "system:cluster-trust-bundle-discovery", gate: feature.ClusterTrustBundle},
		{role: nodeRole, group: coreGroupInTables, resource: "serviceaccounts", gate: feature.KubeletServiceAccountTokenForCredentialProviders},
		{role: controllerPrefix + "device-taint-eviction-controller", gate: feature.DRADeviceTaints},
		{role: controllerPrefix + "endpointslice-controller", group: "discovery.k8s.io", resource: "endpointslices/restricted", last: 36},
		{role: controllerPrefix + "endpointslicemirroring-controller", group: "discovery.k8s.io", resource: "endpointslices/restricted", last: 36},
		{role: controllerPrefix + "kube-apiserver-serving-clustertrustbundle-publisher", gate: feature.ClusterTrustBundle},
		{role: controllerPrefix + "node-controller", group: "coordination.k8s.io", resource: "leases", first: 37},
		{role: controllerPrefix + "podcertificaterequestcleaner", gate: feature.PodCertificateRequest},
		{role: controllerPrefix + "resource-claim-controller", gate: allocation},
		{role: controllerPrefix + "selinux-warning-controller", gate: "SELinuxChangePolicy"},
		{role: controllerPrefix + "service-ca-cert-publisher", last: 36},
		{role: controllerPrefix + "storage-version-migrator-controller", gate: feature.StorageVersionMigrator},
		{role: controllerPrefix + "volumeattributesclass-protection-controller", gate: "VolumeAttributesClass"},
	}
}

// applies reports whether the condition is satisfied.
func (c *gatedRole) applies(gates feature.Gates) bool {
	return (c.gate == "" || gates.Enabled(c.gate)) &&
		(c.first == 0 || gates.Minor() >= c.first) && (c.last == 0 || gates.Minor() <= c.last)
}

// roleFilter contains the conditions that are not satisfied. It removes the affected roles and resources.
type roleFilter []gatedRole

func newRoleFilter(gates feature.Gates) roleFilter {
	return slices.DeleteFunc(gatedRoles(), func(c gatedRole) bool { return c.applies(gates) })
}

// Recorded reports whether Seed contains the default roles for a server with the given gates.
func Recorded(gates feature.Gates) bool {
	return slices.EqualFunc(newRoleFilter(gates), newRoleFilter(feature.Defaults()), func(a, b gatedRole) bool { return a == b })
}

// hasRole reports whether the filter keeps a role.
func (f roleFilter) hasRole(name string) bool {
	return !slices.ContainsFunc(f, func(c gatedRole) bool { return c.role == name && c.group == "" })
}

// roles removes roles, and removes resources from the rules of the remaining roles. It modifies its argument.
func (f roleFilter) roles(roles []*rbacv1.ClusterRole) []*rbacv1.ClusterRole {
	roles = slices.DeleteFunc(roles, func(r *rbacv1.ClusterRole) bool { return !f.hasRole(r.Name) })
	for _, r := range roles {
		r.Rules = f.rules(r.Name, r.Rules)
	}
	return roles
}

// bindings removes the bindings of removed roles. It modifies its argument.
func (f roleFilter) bindings(bindings []*rbacv1.ClusterRoleBinding) []*rbacv1.ClusterRoleBinding {
	return slices.DeleteFunc(bindings, func(b *rbacv1.ClusterRoleBinding) bool { return !f.hasRole(b.RoleRef.Name) })
}

// rules removes resources from the rules of a role, and rules that become empty. It modifies its argument.
func (f roleFilter) rules(role string, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for i := range rules {
		r := &rules[i]
		r.Resources = slices.DeleteFunc(r.Resources, func(resource string) bool {
			return slices.ContainsFunc(f, func(c gatedRole) bool {
				return (c.role == "" || c.role == role) && c.selects(r.APIGroups, resource)
			})
		})
	}
	return slices.DeleteFunc(rules, func(r rbacv1.PolicyRule) bool { return len(r.Resources) == 0 && len(r.NonResourceURLs) == 0 })
}

// selects reports whether the condition applies to a resource in a rule with the given API groups.
func (c *gatedRole) selects(groups []string, resource string) bool {
	group := c.group
	if group == coreGroupInTables {
		group = ""
	}
	if c.group == "" || !slices.Contains(groups, group) {
		return false
	}
	return c.resource == "*" || c.resource == resource || strings.HasPrefix(resource, c.resource+"/")
}
