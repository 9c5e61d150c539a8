package bootstrap

import rbacv1 "k8s.io/api/rbac/v1"

// userRoles returns the roles that are meant to be granted to users. Three of them aggregate other roles by
// label.
func userRoles() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		aggregatedFrom("admin", clusterRole("admin")),
		clusterRole("cluster-admin",
			allow("*", "*", "*"),
			urls("*", "*"),
		),
		aggregatesTo("admin", aggregatedFrom("edit", clusterRole("edit"))),
		aggregatesTo("admin", clusterRole("system:aggregate-to-admin",
			allow("create", "authorization.k8s.io", "localsubjectaccessreviews"),
			allow("create delete deletecollection get list patch update watch", "rbac.authorization.k8s.io", "rolebindings roles"),
		)),
		aggregatesTo("edit", clusterRole("system:aggregate-to-edit",
			allow("get list watch", "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
			allow("impersonate", "core", "serviceaccounts"),
			allow("create delete deletecollection patch update", "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
			allow("create", "core", "pods/eviction"),
			allow("create delete deletecollection patch update", "core", "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy"),
			allow("create", "core", "serviceaccounts/token"),
			allow("create delete deletecollection patch update", "core events.k8s.io", "events"),
			allow("create delete deletecollection patch update", "apps", "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale"),
			allow("create delete deletecollection patch update", "autoscaling", "horizontalpodautoscalers"),
			allow("create delete deletecollection patch update", "batch", "cronjobs jobs"),
			allow("create delete deletecollection patch update", "extensions", "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale"),
			allow("create delete deletecollection patch update", "policy", "poddisruptionbudgets"),
			allow("create delete deletecollection patch update", "networking.k8s.io", "ingresses networkpolicies"),
			allow("create delete deletecollection get list patch update watch", "coordination.k8s.io", "leases"),
			allow("create delete deletecollection patch update", "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
		)),
		aggregatesTo("view", clusterRole("system:aggregate-to-view",
			allow("get list watch", "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status"),
			allow("get list watch", "core", "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status"),
			allow("get list watch", "core", "namespaces"),
			allow("get list watch", "core events.k8s.io", "events"),
			allow("get list watch", "discovery.k8s.io", "endpointslices"),
			allow("get list watch", "apps", "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status"),
			allow("get list watch", "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
			allow("get list watch", "batch", "cronjobs cronjobs/status jobs jobs/status"),
			allow("get list watch", "extensions", "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale"),
			allow("get list watch", "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
			allow("get list watch", "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
			allow("get list watch", "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
		)),
		aggregatesTo("edit", aggregatedFrom("view", clusterRole("view"))),
	}
}
