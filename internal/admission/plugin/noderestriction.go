package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/host/pki"
)

// NodeRestriction limits the writes of each kubelet to its own node and the pods of this node. It complements
// the Node authorizer, which evaluates only the names in a request, not the object.
type NodeRestriction struct {
	Nodes    Getter[*corev1.Node]
	Pods     Getter[*corev1.Pod]
	Accounts Getter[*corev1.ServiceAccount]
	Claims   Getter[*corev1.PersistentVolumeClaim]
	Volumes  Getter[*corev1.PersistentVolume]
	Drivers  Getter[*storagev1.CSIDriver]
	// Authorizer decides whether a node may request tokens for audiences that its pods do not name.
	Authorizer authorizer.Authorizer

	// AnyAudience is the negation of the feature gate ServiceAccountNodeAudienceRestriction. AnyCertificate is
	// the gate AllowInsecureKubeletCertificateSigningRequests, and PodCertificates is the gate
	// PodCertificateRequest.
	AnyAudience, AnyCertificate, PodCertificates bool
}

func nodeRestrictionPlugin() Registration {
	return Registration{
		Name: NodeRestriction{}.Name(), Description: "limits kubelets to their own nodes and pods",
		New: func(d Dependencies) admission.Plugin {
			return NodeRestriction{
				Nodes:           d.nodes(),
				Pods:            client[*corev1.Pod](d, corev1.SchemeGroupVersion, "pods"),
				Accounts:        client[*corev1.ServiceAccount](d, corev1.SchemeGroupVersion, "serviceaccounts"),
				Claims:          client[*corev1.PersistentVolumeClaim](d, corev1.SchemeGroupVersion, "persistentvolumeclaims"),
				Volumes:         client[*corev1.PersistentVolume](d, corev1.SchemeGroupVersion, "persistentvolumes"),
				Drivers:         cached[*storagev1.CSIDriver](d, storagev1.SchemeGroupVersion, "csidrivers"),
				Authorizer:      d.Authorizer,
				AnyAudience:     !d.Gates.Enabled(feature.ServiceAccountNodeAudienceRestriction),
				AnyCertificate:  d.Gates.Enabled(feature.AllowInsecureKubeletCertificateSigningRequests),
				PodCertificates: d.Gates.Enabled(feature.PodCertificateRequest),
			}
		},
	}
}

// NodeRestriction does not change objects, but runs with the mutating plugins, as in kube-apiserver.
var _ admission.Mutator = NodeRestriction{}

// Name implements admission.Plugin.
func (NodeRestriction) Name() string { return "NodeRestriction" }

// Handles implements admission.Plugin.
func (NodeRestriction) Handles(op admission.Operation) bool { return op != admission.Connect }

// Mutate implements admission.Mutator. It does not change the object.
func (p NodeRestriction) Mutate(ctx context.Context, a *admission.Attributes) error {
	node, ok := a.User.Node()
	switch {
	case !ok:
		return nil
	case node == "":
		return reject(a, fmt.Errorf("could not determine node from user %q", a.User.Name))
	}
	return p.admit(ctx, a, node)
}

func (p NodeRestriction) admit(ctx context.Context, a *admission.Attributes, node string) error {
	switch a.Resource.GroupResource() {
	case corev1.Resource("pods"):
		return p.restrictPod(ctx, a, node)
	case corev1.Resource("nodes"):
		return restrictNode(a, node)
	case corev1.Resource("persistentvolumeclaims"):
		return restrictClaim(a, node)
	case corev1.Resource("serviceaccounts"):
		return p.restrictToken(ctx, a, node)
	case coordinationv1.Resource("leases"):
		if a.Namespace != corev1.NamespaceNodeLease {
			return reject(a, fmt.Errorf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease))
		}
		return restrictName(a, node, "can only access node lease with the same name as the requesting node")
	case storagev1.Resource("csinodes"):
		return restrictName(a, node, "can only access CSINode with the same name as the requesting node")
	case resourcev1.Resource("resourceslices"):
		return restrictSlice(a, node)
	case certificatesv1.Resource("certificatesigningrequests"):
		return p.restrictCertificate(a, node)
	case certificatesv1.Resource("podcertificaterequests"):
		return p.restrictPodCertificate(ctx, a, node)
	}
	return nil
}

// nameOf returns the name of the request's object. For creates, the name is taken from the object.
func nameOf(a *admission.Attributes) string {
	if obj, ok := a.Object.(metav1.Object); ok && a.Operation == admission.Create {
		return obj.GetName()
	}
	return a.Name
}

func restrictName(a *admission.Attributes, node, reason string) error {
	if nameOf(a) != node {
		return reject(a, errors.New(reason))
	}
	return nil
}

// unexpected returns the error for an operation that kubelets do not use, or for an object of an unexpected
// kind.
func unexpected(a *admission.Attributes) error {
	return reject(a, fmt.Errorf("unexpected operation %q", a.Operation))
}

func (p NodeRestriction) restrictPod(ctx context.Context, a *admission.Attributes, node string) error {
	switch a.Resource.Subresource {
	case "":
		return p.restrictMirrorPod(ctx, a, node)
	case "status":
		return restrictPodStatus(a, node)
	case "eviction":
		return p.restrictEviction(ctx, a, node)
	}
	return reject(a, fmt.Errorf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.Resource.Subresource))
}

func (p NodeRestriction) restrictMirrorPod(ctx context.Context, a *admission.Attributes, node string) error {
	pod, _ := a.Object.(*corev1.Pod)
	old := oldOf[corev1.Pod](a)
	switch {
	case a.Operation == admission.Create && pod != nil:
		return p.restrictNewMirrorPod(ctx, a, pod, node)
	case a.Operation == admission.Delete && old != nil:
		if old.Spec.NodeName != node {
			return reject(a, fmt.Errorf("node %q can only delete pods with spec.nodeName set to itself", node))
		}
		return nil
	}
	return reject(a, fmt.Errorf("unexpected operation %q, node %q can only create and delete mirror pods", a.Operation, node))
}

// restrictNewMirrorPod rejects pods that are not mirror pods of the node, and mirror pods that reference other
// objects, such as secrets.
func (p NodeRestriction) restrictNewMirrorPod(ctx context.Context, a *admission.Attributes, pod *corev1.Pod, node string) error {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		return reject(a, fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node))
	}
	if pod.Spec.NodeName != node {
		return reject(a, fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", node))
	}
	if err := ownedByNode(pod, node); err != nil {
		return reject(a, err)
	}
	owner, err := p.Nodes.Get(ctx, types.NamespacedName{Name: node})
	switch {
	case apierrors.IsNotFound(err):
		return err
	case err != nil:
		return reject(a, fmt.Errorf("error looking up node %s to verify uid: %w", node, err))
	}
	if uid := pod.OwnerReferences[0].UID; uid != owner.UID {
		return reject(a, fmt.Errorf("node %s UID mismatch: expected %s got %s", node, uid, owner.UID))
	}
	if reference := podspec.FirstReferencedKind(&pod.Spec); reference != "" {
		return reject(a, fmt.Errorf("node %q can not create pods that reference %s", node, reference))
	}
	return nil
}

// ownedByNode returns an error unless the node is the only owner of the pod, and its controller.
func ownedByNode(pod *corev1.Pod, node string) error {
	if len(pod.OwnerReferences) > 1 {
		return fmt.Errorf("node %q can only create pods with a single owner reference set to itself", node)
	}
	if len(pod.OwnerReferences) == 0 {
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", node)
	}
	switch owner := &pod.OwnerReferences[0]; {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != node:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", node)
	case owner.Controller == nil || !*owner.Controller:
		return fmt.Errorf("node %q can only create pods with a controller owner reference set to itself", node)
	case blocks(owner):
		return fmt.Errorf("node %q must not set blockOwnerDeletion on an owner reference", node)
	}
	return nil
}

func restrictPodStatus(a *admission.Attributes, node string) error {
	pod, _ := a.Object.(*corev1.Pod)
	old := oldOf[corev1.Pod](a)
	if a.Operation != admission.Update || pod == nil || old == nil {
		return unexpected(a)
	}
	switch {
	case old.Spec.NodeName != node:
		return reject(a, fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", node))
	case !maps.Equal(old.Labels, pod.Labels):
		return reject(a, fmt.Errorf("node %q cannot update labels through pod status", node))
	case !slices.EqualFunc(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses, sameClaim):
		return reject(a, fmt.Errorf("node %q cannot update resource claim statues", node))
	case !equality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus):
		return reject(a, fmt.Errorf("node %q cannot update extended resource claim status", node))
	}
	return nil
}

func sameClaim(a, b corev1.PodResourceClaimStatus) bool {
	x, y := a.ResourceClaimName, b.ResourceClaimName
	return a.Name == b.Name && (x == nil) == (y == nil) && (x == nil || *x == *y)
}

func (p NodeRestriction) restrictEviction(ctx context.Context, a *admission.Attributes, node string) error {
	if a.Operation != admission.Create {
		return reject(a, fmt.Errorf("unexpected operation %s", a.Operation))
	}
	pod, err := p.Pods.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: a.Name})
	switch {
	case apierrors.IsNotFound(err):
		return err
	case err != nil:
		return reject(a, err)
	case pod.Spec.NodeName != node:
		return reject(a, fmt.Errorf("node %s can only evict pods with spec.nodeName set to itself", node))
	}
	return nil
}

// restrictClaim allows nodes only to report the progress of a volume's expansion in the status.
func restrictClaim(a *admission.Attributes, node string) error {
	if a.Resource.Subresource != "status" {
		return reject(a, errors.New("may only update PVC status"))
	}
	claim, _ := a.Object.(*corev1.PersistentVolumeClaim)
	old := oldOf[corev1.PersistentVolumeClaim](a)
	if a.Operation != admission.Update || claim == nil || old == nil {
		return unexpected(a)
	}
	if !equality.Semantic.DeepEqual(withoutSize(claim), withoutSize(old)) {
		return reject(a, fmt.Errorf("node %q is not allowed to update fields other than status.quantity and status.conditions", node))
	}
	return nil
}

// withoutSize returns a copy of a claim without the fields that nodes report and the fields that change with
// each write.
func withoutSize(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	rest := *claim
	rest.ResourceVersion, rest.ManagedFields = "", nil
	rest.Status.Capacity, rest.Status.Conditions = nil, nil
	rest.Status.AllocatedResources, rest.Status.AllocatedResourceStatuses = nil, nil
	return &rest
}

// restrictSlice allows a node to create and delete only ResourceSlices that contain the node's own name. The
// Node authorizer checks all other requests for ResourceSlices.
func restrictSlice(a *admission.Attributes, node string) error {
	slice, verb := oldOf[resourcev1.ResourceSlice](a), "delete"
	switch a.Operation {
	case admission.Create:
		slice, _ = a.Object.(*resourcev1.ResourceSlice)
		verb = "create"
	case admission.Update:
		return nil
	}
	if slice == nil || slice.Spec.NodeName == nil || *slice.Spec.NodeName != node {
		return reject(a, fmt.Errorf("can only %s ResourceSlice with the same NodeName as the requesting node", verb))
	}
	return nil
}

// restrictCertificate allows a node to request certificates only for its own identity.
func (p NodeRestriction) restrictCertificate(a *admission.Attributes, node string) error {
	csr, _ := a.Object.(*certificatesv1.CertificateSigningRequest)
	if p.AnyCertificate || a.Operation != admission.Create || csr == nil {
		return nil
	}
	if signer := csr.Spec.SignerName; signer != certificatesv1.KubeletServingSignerName && signer != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	requested, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		return reject(a, fmt.Errorf("unable to parse csr: %w", err))
	}
	if name := "system:node:" + node; requested.Subject.CommonName != name {
		return reject(a, fmt.Errorf("can only create a node CSR with CN=%s", name))
	}
	return nil
}

// restrictToken allows a node to request tokens only for the service accounts of its own pods. Each token must
// be bound to such a pod.
func (p NodeRestriction) restrictToken(ctx context.Context, a *admission.Attributes, node string) error {
	if a.Operation != admission.Create || a.Resource.Subresource != "token" {
		return nil
	}
	requested, _ := a.Object.(*authenticationv1.TokenRequest)
	if requested == nil {
		return unexpected(a)
	}
	ref := requested.Spec.BoundObjectRef
	switch {
	case ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "":
		return reject(a, errors.New("node requested token not bound to a pod"))
	case ref.UID == "":
		return reject(a, errors.New("node requested token with a pod binding without a uid"))
	}
	pod, err := p.Pods.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: ref.Name})
	switch {
	case apierrors.IsNotFound(err):
		return err
	case err != nil:
		return reject(a, err)
	case ref.UID != pod.UID:
		return reject(a, fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	case pod.Spec.NodeName != node:
		return reject(a, errors.New("node requested token bound to a pod scheduled on a different node"))
	}
	return p.restrictAudience(ctx, a, requested.Spec.Audiences, pod)
}
