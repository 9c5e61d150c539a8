package node

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/feature"
)

// nodeRequest is a request of a node. The functions that authorize it report whether it is allowed. If the
// request is not allowed, they also return the reason, which is kube-apiserver's message or "".
type nodeRequest struct {
	*authorizer.Attributes
	node string
}

func (q *nodeRequest) key(k kind) objectKey { return objectKey{k, q.Namespace, q.Name} }

func (q *nodeRequest) namespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: q.Namespace, Name: q.Name}
}

// decide checks the relation of the node to the object for some resources. For all other resources, only the
// rules apply.
func (a *Authorizer) decide(q *nodeRequest) (bool, string) {
	if !q.ResourceRequest {
		return a.rules.Allow(q.Attributes), ""
	}
	switch q.APIGroup + "/" + q.Resource {
	case "/secrets":
		return a.authorizeRead(q, secrets)
	case "/configmaps":
		return a.authorizeRead(q, configMaps)
	case "/persistentvolumeclaims":
		return a.authorizeClaim(q)
	case "/persistentvolumes":
		return a.authorizeGet(q, func() bool { return a.graph.usesVolume(q.node, q.namespacedName()) })
	case "/serviceaccounts":
		return a.authorizeServiceAccount(q)
	case "/nodes":
		return authorizeNode(q)
	case "/pods":
		return a.authorizePod(q)
	case "certificates.k8s.io/podcertificaterequests":
		return a.authorizePodCertificate(q)
	case "coordination.k8s.io/leases":
		return authorizeLease(q)
	case "resource.k8s.io/resourceclaims":
		return a.authorizeGet(q, func() bool { return a.graph.uses(q.node, q.key(resourceClaims)) })
	case "resource.k8s.io/resourceslices":
		return a.authorizeResourceSlice(q)
	case "storage.k8s.io/csinodes":
		return authorizeCSINode(q)
	case "storage.k8s.io/volumeattachments":
		return a.authorizeGet(q, func() bool { return a.graph.attachments.isOwner(q.node, q.namespacedName()) })
	}
	return a.rules.Allow(q.Attributes), ""
}

// checkRelation allows the request if related returns true. related is called with the graph
// locked.
func (a *Authorizer) checkRelation(q *nodeRequest, related func() bool) (bool, string) {
	if q.Name == "" {
		return false, "No Object name found"
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	if !related() {
		return false, fmt.Sprintf("no relationship found between node '%s' and this object", q.node)
	}
	return true, ""
}

// authorizeGet allows the verb get for an object that is related to the node.
func (a *Authorizer) authorizeGet(q *nodeRequest, related func() bool) (bool, string) {
	switch {
	case q.Verb != "get":
		return false, "can only get individual resources of this type"
	case q.Subresource != "":
		return false, "cannot get subresource"
	}
	return a.checkRelation(q, related)
}

// authorizeRead allows the verbs get, list and watch for one object that a pod of the node refers
// to.
func (a *Authorizer) authorizeRead(q *nodeRequest, k kind) (bool, string) {
	switch {
	case q.Verb != "get" && q.Verb != "list" && q.Verb != "watch":
		return false, "can only read resources of this type"
	case q.Subresource != "":
		return false, "cannot read subresource"
	case q.Namespace == "":
		return false, "can only read namespaced object of this type"
	}
	return a.checkRelation(q, func() bool { return a.graph.uses(q.node, q.key(k)) })
}

func (a *Authorizer) authorizeClaim(q *nodeRequest) (bool, string) {
	used := func() bool { return a.graph.uses(q.node, q.key(claims)) }
	if q.Subresource != "status" {
		return a.authorizeGet(q, used)
	}
	if q.Verb != "update" && q.Verb != "patch" {
		return false, "can only get/update/patch this type"
	}
	return a.checkRelation(q, used)
}

func (a *Authorizer) authorizeServiceAccount(q *nodeRequest) (bool, string) {
	if q.Verb == "get" && q.Subresource == "" {
		if !a.gates.Enabled(feature.KubeletServiceAccountTokenForCredentialProviders) && !a.gates.Enabled(feature.PodCertificateRequest) {
			return false, "not allowed to get service accounts"
		}
		return a.authorizeRead(q, serviceAccounts)
	}
	switch {
	case q.Verb != "create" || q.Name == "":
		return false, "can only create tokens for individual service accounts"
	case q.Subresource != "token":
		return false, "can only create token subresource of serviceaccount"
	}
	return a.checkRelation(q, func() bool { return a.graph.uses(q.node, q.key(serviceAccounts)) })
}

// authorizeLease authorizes access to the lease of the node. It does not check the name of an object to create,
// because the admission plugin NodeRestriction checks it. The same is true for the functions below.
func authorizeLease(q *nodeRequest) (bool, string) {
	switch {
	case !isObjectVerb(q.Verb):
		return false, "can only get, create, update, patch, or delete a node lease"
	case q.Namespace != corev1.NamespaceNodeLease:
		return false, fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case q.Verb != "create" && q.Name != q.node:
		return false, "can only access node lease with the same name as the requesting node"
	}
	return true, ""
}

func authorizeCSINode(q *nodeRequest) (bool, string) {
	switch {
	case !isObjectVerb(q.Verb):
		return false, "can only get, create, update, patch, or delete a CSINode"
	case q.Subresource != "":
		return false, "cannot authorize CSINode subresources"
	case q.Verb != "create" && q.Name != q.node:
		return false, "can only access CSINode with the same name as the requesting node"
	}
	return true, ""
}

func isObjectVerb(verb string) bool {
	switch verb {
	case "get", "create", "update", "patch", "delete":
		return true
	}
	return false
}

func (a *Authorizer) authorizeResourceSlice(q *nodeRequest) (bool, string) {
	if q.Subresource != "" {
		return false, "cannot authorize ResourceSlice subresources"
	}
	switch q.Verb {
	case "create":
		return true, ""
	case "get", "update", "patch", "delete":
		return a.checkRelation(q, func() bool { return a.graph.slices.isOwner(q.node, q.namespacedName()) })
	case "watch", "list", "deletecollection":
		if q.selectsNode("spec.nodeName") {
			return true, ""
		}
		return false, "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return false, "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

func (a *Authorizer) authorizePodCertificate(q *nodeRequest) (bool, string) {
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
		return a.checkRelation(q, func() bool { return a.graph.certificates.isOwner(q.node, q.namespacedName()) })
	case "list", "watch":
		if q.selectsNode("spec.nodeName") {
			return true, ""
		}
		return false, "can only list/watch podcertificaterequests with nodeName field selector"
	}
	return false, fmt.Sprintf("nodes may not %s podcertificaterequests", q.Verb)
}

// authorizeNode authorizes access to the node's own Node object. It checks only the name, because a
// kubelet reads its Node before creating it.
func authorizeNode(q *nodeRequest) (bool, string) {
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

func (a *Authorizer) authorizePod(q *nodeRequest) (bool, string) {
	bound := func() bool { return a.graph.hasPod(q.node, q.namespacedName()) }
	switch q.Subresource + "/" + q.Verb {
	case "/get":
		return a.checkRelation(q, bound)
	case "/list", "/watch":
		switch {
		case q.selectsNode("spec.nodeName"):
			return true, ""
		case q.Name != "":
			return a.checkRelation(q, bound)
		}
		return false, "can only list/watch pods with spec.nodeName field selector"
	case "/create", "/delete", "status/update", "status/patch", "eviction/create":
		return true, ""
	}
	return false, ""
}

// selectsNode reports whether the field selector limits the request to objects of the node.
func (q *nodeRequest) selectsNode(field string) bool {
	for _, r := range q.FieldSelectorRequirements {
		if r.Field == field && r.Operator == selection.Equals && r.Value == q.node {
			return true
		}
	}
	return false
}
