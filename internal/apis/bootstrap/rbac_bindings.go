package bootstrap

import rbacv1 "k8s.io/api/rbac/v1"

// systemBindings returns the bindings of system roles. It does not include the bindings of controllers, which
// grants returns.
func systemBindings() []*rbacv1.ClusterRoleBinding {
	return []*rbacv1.ClusterRoleBinding{
		clusterBinding("cluster-admin", "cluster-admin", group("system:masters")),
		clusterBinding("system:basic-user", "system:basic-user", group("system:authenticated")),
		clusterBinding("system:cluster-trust-bundle-discovery", "system:cluster-trust-bundle-discovery", group("system:serviceaccounts")),
		clusterBinding("system:discovery", "system:discovery", group("system:authenticated")),
		clusterBinding("system:kube-controller-manager", "system:kube-controller-manager", user("system:kube-controller-manager")),
		clusterBinding("system:kube-dns", "system:kube-dns", account("kube-dns")),
		clusterBinding("system:kube-scheduler", "system:kube-scheduler", user("system:kube-scheduler")),
		clusterBinding("system:monitoring", "system:monitoring", group("system:monitoring")),
		clusterBinding("system:node", "system:node"),
		clusterBinding("system:node-proxier", "system:node-proxier", user("system:kube-proxy")),
		clusterBinding("system:public-info-viewer", "system:public-info-viewer", group("system:authenticated"), group("system:unauthenticated")),
		clusterBinding("system:service-account-issuer-discovery", "system:service-account-issuer-discovery", group("system:serviceaccounts")),
		clusterBinding("system:volume-scheduler", "system:volume-scheduler", user("system:kube-scheduler")),
	}
}

// namespacedRoles returns the default roles that are not cluster roles.
func namespacedRoles() []*rbacv1.Role {
	return []*rbacv1.Role{
		role("kube-public", "system:controller:bootstrap-signer",
			allow("get list watch", "core", "configmaps"),
			allow("update", "core", "configmaps", "cluster-info"),
			allow("create patch update", "core events.k8s.io", "events"),
		),
		role("kube-system", "extension-apiserver-authentication-reader",
			allow("get list watch", "core", "configmaps", "extension-apiserver-authentication"),
		),
		role("kube-system", "system::leader-locking-kube-controller-manager",
			allow("create get list update watch", "coordination.k8s.io", "leases"),
			allow("create get list update watch", "coordination.k8s.io", "leasecandidates"),
		),
		role("kube-system", "system::leader-locking-kube-scheduler",
			allow("create get list update watch", "coordination.k8s.io", "leases"),
			allow("create get list update watch", "coordination.k8s.io", "leasecandidates"),
		),
		role("kube-system", "system:controller:bootstrap-signer",
			allow("get list watch", "core", "secrets"),
		),
		role("kube-system", "system:controller:cloud-provider",
			allow("create get list watch", "core", "configmaps"),
		),
		role("kube-system", "system:controller:token-cleaner",
			allow("delete get list watch", "core", "secrets"),
			allow("create patch update", "core events.k8s.io", "events"),
		),
	}
}

// namespacedBindings returns the bindings of namespacedRoles.
func namespacedBindings() []*rbacv1.RoleBinding {
	return []*rbacv1.RoleBinding{
		binding("kube-public", "system:controller:bootstrap-signer", "system:controller:bootstrap-signer", account("bootstrap-signer")),
		binding("kube-system", "system::extension-apiserver-authentication-reader", "extension-apiserver-authentication-reader", user("system:kube-controller-manager"), user("system:kube-scheduler")),
		binding("kube-system", "system::leader-locking-kube-controller-manager", "system::leader-locking-kube-controller-manager", user("system:kube-controller-manager"), account("kube-controller-manager"), account("leader-election-controller")),
		binding("kube-system", "system::leader-locking-kube-scheduler", "system::leader-locking-kube-scheduler", user("system:kube-scheduler"), account("kube-scheduler")),
		binding("kube-system", "system:controller:bootstrap-signer", "system:controller:bootstrap-signer", account("bootstrap-signer")),
		binding("kube-system", "system:controller:cloud-provider", "system:controller:cloud-provider", account("cloud-provider")),
		binding("kube-system", "system:controller:token-cleaner", "system:controller:token-cleaner", account("token-cleaner")),
	}
}
