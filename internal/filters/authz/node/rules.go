package node

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/feature"
)

// question is a request of a node. Rules return whether it is allowed, or the reason with
// kube-apiserver's message.
type question struct {
	*authorizer.Attributes
	node string
}

func (q *question) key(k kind) objectKey { return objectKey{k, q.Namespace, q.Name} }

func (q *question) at() types.NamespacedName {
	return types.NamespacedName{Namespace: q.Namespace, Name: q.Name}
}

// decide looks closely at the resources of which a node may not do all that its rules allow.
func (a *Authorizer) decide(q *question) (bool, string) {
	if !q.ResourceRequest {
		return a.rules.Allow(q.Attributes), ""
	}
	switch q.APIGroup + "/" + q.Resource {
	case "/secrets":
		return a.readsOne(q, secrets)
	case "/configmaps":
		return a.readsOne(q, configMaps)
	case "/persistentvolumeclaims":
		return a.claim(q)
	case "/persistentvolumes":
		return a.gets(q, func() bool { return a.graph.usesVolume(q.node, q.at()) })
	case "/serviceaccounts":
		return a.serviceAccount(q)
	case "/nodes":
		return self(q)
	case "/pods":
		return a.pod(q)
	case "certificates.k8s.io/podcertificaterequests":
		return a.certificate(q)
	case "coordination.k8s.io/leases":
		return lease(q)
	case "resource.k8s.io/resourceclaims":
		return a.gets(q, func() bool { return a.graph.uses(q.node, q.key(resourceClaims)) })
	case "resource.k8s.io/resourceslices":
		return a.slice(q)
	case "storage.k8s.io/csinodes":
		return csiNode(q)
	case "storage.k8s.io/volumeattachments":
		return a.gets(q, func() bool { return a.graph.attachments.have(q.node, q.at()) })
	}
	return a.rules.Allow(q.Attributes), ""
}

// related checks the relation of the node to the requested object.
func (a *Authorizer) related(q *question, is func() bool) (bool, string) {
	if q.Name == "" {
		return false, "No Object name found"
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	if !is() {
		return false, fmt.Sprintf("no relationship found between node '%s' and this object", q.node)
	}
	return true, ""
}

// gets allows get of an object that has to do with the node.
func (a *Authorizer) gets(q *question, is func() bool) (bool, string) {
	switch {
	case q.Verb != "get":
		return false, "can only get individual resources of this type"
	case q.Subresource != "":
		return false, "cannot get subresource"
	}
	return a.related(q, is)
}

// readsOne allows to get, list and watch one object that a pod of the node refers to.
func (a *Authorizer) readsOne(q *question, k kind) (bool, string) {
	switch {
	case q.Verb != "get" && q.Verb != "list" && q.Verb != "watch":
		return false, "can only read resources of this type"
	case q.Subresource != "":
		return false, "cannot read subresource"
	case q.Namespace == "":
		return false, "can only read namespaced object of this type"
	}
	return a.related(q, func() bool { return a.graph.uses(q.node, q.key(k)) })
}

func (a *Authorizer) claim(q *question) (bool, string) {
	used := func() bool { return a.graph.uses(q.node, q.key(claims)) }
	if q.Subresource != "status" {
		return a.gets(q, used)
	}
	if q.Verb != "update" && q.Verb != "patch" {
		return false, "can only get/update/patch this type"
	}
	return a.related(q, used)
}

func (a *Authorizer) serviceAccount(q *question) (bool, string) {
	if q.Verb == "get" && q.Subresource == "" {
		if !a.gates.Enabled(feature.KubeletServiceAccountTokenForCredentialProviders) && !a.gates.Enabled(feature.PodCertificateRequest) {
			return false, "not allowed to get service accounts"
		}
		return a.readsOne(q, serviceAccounts)
	}
	switch {
	case q.Verb != "create" || q.Name == "":
		return false, "can only create tokens for individual service accounts"
	case q.Subresource != "token":
		return false, "can only create token subresource of serviceaccount"
	}
	return a.related(q, func() bool { return a.graph.uses(q.node, q.key(serviceAccounts)) })
}

// lease: NodeRestriction checks the name of a created lease, and the content of other objects
// below.
func lease(q *question) (bool, string) {
	switch {
	case !writesOne(q.Verb):
		return false, "can only get, create, update, patch, or delete a node lease"
	case q.Namespace != corev1.NamespaceNodeLease:
		return false, fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case q.Verb != "create" && q.Name != q.node:
		return false, "can only access node lease with the same name as the requesting node"
	}
	return true, ""
}

func csiNode(q *question) (bool, string) {
	switch {
	case !writesOne(q.Verb):
		return false, "can only get, create, update, patch, or delete a CSINode"
	case q.Subresource != "":
		return false, "cannot authorize CSINode subresources"
	case q.Verb != "create" && q.Name != q.node:
		return false, "can only access CSINode with the same name as the requesting node"
	}
	return true, ""
}

func writesOne(verb string) bool {
	switch verb {
	case "get", "create", "update", "patch", "delete":
		return true
	}
	return false
}

func (a *Authorizer) slice(q *question) (bool, string) {
	if q.Subresource != "" {
		return false, "cannot authorize ResourceSlice subresources"
	}
	switch q.Verb {
	case "create":
		return true, ""
	case "get", "update", "patch", "delete":
		return a.related(q, func() bool { return a.graph.slices.have(q.node, q.at()) })
	case "watch", "list", "deletecollection":
		if q.selects("spec.nodeName") {
			return true, ""
		}
		return false, "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return false, "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

func (a *Authorizer) certificate(q *question) (bool, string) {
	switch {
	case !a.gates.Enabled(feature.PodCertificateRequest):
		return false, ""
	case q.Subresource != "":
		return false, "nodes may not access the status subresource of PodCertificateRequests"
	}
	switch q.Verb {
	case "create":
		return true, ""
	case "get":
		return a.related(q, func() bool { return a.graph.certificates.have(q.node, q.at()) })
	case "list", "watch":
		if q.selects("spec.nodeName") {
			return true, ""
		}
		return false, "can only list/watch podcertificaterequests with nodeName field selector"
	}
	return false, fmt.Sprintf("nodes may not %s podcertificaterequests", q.Verb)
}

// self: a kubelet reads its Node before creating it, so the name is sufficient.
func self(q *question) (bool, string) {
	switch q.Subresource + "/" + q.Verb {
	case "/create", "/update", "/patch", "status/update", "status/patch":
		return true, ""
	case "/get", "/list", "/watch":
		switch q.Name {
		case q.node:
			return true, ""
		case "":
			return false, fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", q.node)
		}
		return false, fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", q.node, q.Name)
	}
	return false, ""
}

func (a *Authorizer) pod(q *question) (bool, string) {
	bound := func() bool { return a.graph.runs(q.node, q.at()) }
	switch q.Subresource + "/" + q.Verb {
	case "/get":
		return a.related(q, bound)
	case "/list", "/watch":
		switch {
		case q.selects("spec.nodeName"):
			return true, ""
		case q.Name != "":
			return a.related(q, bound)
		}
		return false, "can only list/watch pods with spec.nodeName field selector"
	case "/create", "/delete", "status/update", "status/patch", "eviction/create":
		return true, ""
	}
	return false, ""
}

// selects reports whether a field selector limits a collection to the node.
func (q *question) selects(field string) bool {
	for _, r := range q.FieldSelectorRequirements {
		if r.Field == field && r.Operator == selection.Equals && r.Value == q.node {
			return true
		}
	}
	return false
}
