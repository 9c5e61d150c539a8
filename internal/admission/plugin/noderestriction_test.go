package plugin_test

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// audiences is the only audience for which the node may request tokens, for the service account "bot".
type audiences string

func (u audiences) Authorize(_ context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.Verb == "request-serviceaccounts-token-audience" && a.APIVersion == "v1" && a.Resource == string(u) && a.Name == "bot" && a.Namespace == "a" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func onNode(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Spec.NodeName, pod.UID = node, types.UID("uid-"+pod.Name)
	return pod
}

func withClaim(name string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
}

func withToken(audience string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.ServiceAccountName = "bot"
		s.Volumes = append(s.Volumes, corev1.Volume{Name: "t", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience}}},
		}}})
	}
}

func nodeRestriction() plugin.NodeRestriction {
	mirror := onNode(podNamed("mirror", withToken("")), "n1")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	claim := func(name, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
	}
	volume := func(name string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}
	}
	driver := func(name string) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "aud-" + name}}}}
	}
	return plugin.NodeRestriction{
		Nodes: stored[*corev1.Node]{{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-n1"}}},
		Pods: stored[*corev1.Pod]{
			onNode(podNamed("mine", withToken("vault"), withClaim("csi"), withClaim("old")), "n1"), onNode(podNamed("theirs", withToken("vault")), "n2"),
			onNode(podNamed("unbound", withClaim("gone")), "n1"), mirror,
		},
		Accounts: stored[*corev1.ServiceAccount]{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "bot", UID: "uid-bot"}}},
		Claims:   stored[*corev1.PersistentVolumeClaim]{claim("csi", "pv-csi"), claim("old", "pv-old")},
		Volumes: stored[*corev1.PersistentVolume]{
			volume("pv-csi", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}}),
			volume("pv-old", corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}),
		},
		Drivers:    stored[*storagev1.CSIDriver]{driver("d"), driver("ebs.csi.aws.com")},
		Authorizer: audiences("allowed"), PodCertificates: true,
	}
}

// byNode sets the user of the request to node n1, and the name of the requested object.
func byNode(a *admission.Attributes, name string) *admission.Attributes {
	a.User, a.Name = &request.User{Name: "system:node:n1", Groups: []string{request.GroupNodes}}, name
	return a
}

func deleting(r *rest.Resource, old codec.Object) *admission.Attributes {
	return &admission.Attributes{Request: admission.Request{Operation: admission.Delete, Resource: r, Namespace: "a"}, Old: old}
}

// restricted fails the test unless the request is rejected with the reason or, if the reason is "", admitted.
func restricted(t *testing.T, p plugin.NodeRestriction, what string, a *admission.Attributes, reason string) {
	t.Helper()
	err := p.Mutate(t.Context(), a)
	got := ""
	if err != nil {
		got = fmt.Sprintf("%T %v", err, err)
		if _, after, ok := strings.Cut(err.Error(), " is forbidden: "); ok && apierrors.IsForbidden(err) {
			got = after
		}
	}
	if got != reason {
		t.Errorf("%s: %q\nwant %q", what, got, reason)
	}
}

func TestNodeRestrictionIsForNodes(t *testing.T) {
	t.Parallel()
	theirs := onNode(podNamed("theirs"), "n2")
	for user, want := range map[*request.User]string{
		nil:                      "",
		{Name: "system:node:n1"}: "",
		{Name: "jane", Groups: []string{request.GroupNodes}}:           "",
		{Name: "system:node:", Groups: []string{request.GroupNodes}}:   `could not determine node from user "system:node:"`,
		{Name: "system:node:n2", Groups: []string{request.GroupNodes}}: "",
		{Name: "system:node:n1", Groups: []string{request.GroupNodes}}: `node "n1" can only delete pods with spec.nodeName set to itself`,
	} {
		a := deleting(pods(), theirs)
		a.User = user
		restricted(t, nodeRestriction(), fmt.Sprint(user), a, want)
	}
	if nodeRestriction().Handles(admission.Connect) {
		t.Error("the plugin must not handle connections")
	}
}

func TestNodeRestrictionOfMirrorPods(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(*corev1.Pod){
		"": func(*corev1.Pod) {},
		`pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods`: func(p *corev1.Pod) { p.Annotations = nil },
		`node "n1" can only create pods with spec.nodeName set to itself`:                                   func(p *corev1.Pod) { p.Spec.NodeName = "n2" },
		`node "n1" can only create pods with an owner reference set to itself`:                              func(p *corev1.Pod) { p.OwnerReferences[0].Name = "n2" },
		`node "n1" can only create pods with a single owner reference set to itself`:                        func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0]) },
		`node "n1" can only create pods with a controller owner reference set to itself`:                    func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil },
		`node "n1" must not set blockOwnerDeletion on an owner reference`:                                   func(p *corev1.Pod) { p.OwnerReferences[0].BlockOwnerDeletion = ptr(true) },
		`node n1 UID mismatch: expected other got uid-n1`:                                                   func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" },
		`node "n1" can not create pods that reference serviceaccounts`:                                      func(p *corev1.Pod) { p.Spec.ServiceAccountName = "bot" },
		`node "n1" can not create pods that reference secrets`:                                              func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} },
		`node "n1" can not create pods that reference resourceclaims`:                                       func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} },
		`node "n1" can not create pods that reference persistentvolumeclaims`:                               func(p *corev1.Pod) { withClaim("c")(&p.Spec) },
		`node "n1" can not create pods that reference serviceaccounts (via projected volumes)`:              func(p *corev1.Pod) { withToken("")(&p.Spec); p.Spec.ServiceAccountName = "" },
		`node "n1" can not create pods that reference unknown volumes`:                                      func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "?"}} },
	} {
		pod := onNode(podNamed("m"), "n1")
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		pod.Spec.Volumes = []corev1.Volume{{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "uid-n1", Controller: ptr(true)}}
		change(pod)
		restricted(t, nodeRestriction(), reason, byNode(creating(pods(), pod), ""), reason)
	}
}

func TestNodeRestrictionOfPods(t *testing.T) {
	t.Parallel()
	status := resource("", "pods", "status")
	mine := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := onNode(podNamed("mine"), "n1")
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: ptr("made")}}
		if change != nil {
			change(pod)
		}
		return pod
	}
	theirs, eviction := onNode(podNamed("theirs"), "n2"), &policyv1.Eviction{}
	for _, tt := range []struct {
		what   string
		a      *admission.Attributes
		reason string
	}{
		{"deletion", byNode(deleting(pods(), mine(nil)), "mine"), ""},
		{"deletion of another's", byNode(deleting(pods(), theirs), "theirs"), `node "n1" can only delete pods with spec.nodeName set to itself`},
		{"update", byNode(updating(pods(), mine(nil), mine(nil)), "mine"), `unexpected operation "UPDATE", node "n1" can only create and delete mirror pods`},
		{"resize", byNode(updating(resource("", "pods", "resize"), mine(nil), mine(nil)), "mine"), `unexpected pod subresource "resize", only 'status' and 'eviction' are allowed`},
		{"status", byNode(updating(status, mine(func(p *corev1.Pod) { p.Status.Phase = "Running" }), mine(nil)), "mine"), ""},
		{"status of another's", byNode(updating(status, theirs, theirs), "theirs"), `node "n1" can only update pod status for pods with spec.nodeName set to itself`},
		{"labels", byNode(updating(status, mine(func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), mine(nil)), "mine"), `node "n1" cannot update labels through pod status`},
		{"claims", byNode(updating(status, mine(func(p *corev1.Pod) { p.Status.ResourceClaimStatuses[0].ResourceClaimName = ptr("other") }), mine(nil)), "mine"), `node "n1" cannot update resource claim statues`},
		{"extended", byNode(updating(status, mine(func(p *corev1.Pod) { p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{} }), mine(nil)), "mine"), `node "n1" cannot update extended resource claim status`},
		{"status created", byNode(creating(status, mine(nil)), "mine"), `unexpected operation "CREATE"`},
		{"eviction", byNode(creating(resource("", "pods", "eviction"), eviction), "mine"), ""},
		{"eviction of another's", byNode(creating(resource("", "pods", "eviction"), eviction), "theirs"), `node n1 can only evict pods with spec.nodeName set to itself`},
		{"eviction of none", byNode(creating(resource("", "pods", "eviction"), eviction), "none"), `*errors.StatusError things "none" not found`},
		{"eviction in trouble", byNode(creating(resource("", "pods", "eviction"), eviction), "broken"), "disk trouble"},
	} {
		restricted(t, nodeRestriction(), tt.what, tt.a, tt.reason)
	}
}

func TestNodeRestrictionOfNodes(t *testing.T) {
	t.Parallel()
	nodes := resource("", "nodes", "")
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"foo.kubernetes.io/kept": "1", "kubernetes.io/os": "linux"}}}
		if change != nil {
			change(n)
		}
		return n
	}
	labelled := func(key string) *corev1.Node {
		return node(func(n *corev1.Node) { n.Labels[key] = "x" })
	}
	for key, allowed := range map[string]bool{
		"mine": true, "example.com/x": true, "kubernetes.io/hostname": true, "kubernetes.io/os": true, "topology.kubernetes.io/zone": true, "node.kubernetes.io/x": true, "a.kubelet.kubernetes.io/x": true,
		"kubernetes.io/x": false, "a.k8s.io/x": false, "node-role.kubernetes.io/control-plane": false, "node-restriction.kubernetes.io/x": false, "a.node-restriction.kubernetes.io/x": false, "foo.kubernetes.io/kept": false,
	} {
		reason := ""
		if !allowed {
			reason = "is not allowed to modify labels: " + key
		}
		restricted(t, nodeRestriction(), key, byNode(updating(nodes, labelled(key), node(nil)), "n1"), reason)
	}
	bad := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"b.k8s.io/x": "", "a.k8s.io/x": "", "fine": ""}}}
	for _, tt := range []struct {
		what   string
		a      *admission.Attributes
		reason string
	}{
		{"creation", byNode(creating(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}), ""), ""},
		{"creation of another", byNode(creating(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}), ""), `node "n1" is not allowed to modify node "n2"`},
		{"labels from the start", byNode(creating(nodes, bad), ""), `node "n1" is not allowed to set the following labels: a.k8s.io/x, b.k8s.io/x`},
		{"a new source", byNode(creating(nodes, node(func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} })), ""), `node "n1" is not allowed to create pods with a non-nil configSource`},
		{"another's status", byNode(updating(resource("", "nodes", "status"), node(nil), node(nil)), "n2"), `node "n1" is not allowed to modify node "n2"`},
		{"own status", byNode(updating(resource("", "nodes", "status"), node(nil), node(nil)), "n1"), ""},
		{"a label gone", byNode(updating(nodes, node(func(n *corev1.Node) { delete(n.Labels, "foo.kubernetes.io/kept") }), node(nil)), "n1"), "is not allowed to modify labels: foo.kubernetes.io/kept"},
		{"taints", byNode(updating(nodes, node(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k"}} }), node(nil)), "n1"), `node "n1" is not allowed to modify taints`},
		{"taints in the status", byNode(updating(resource("", "nodes", "status"), node(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k"}} }), node(nil)), "n1"), `node "n1" is not allowed to modify taints`},
		{"owners", byNode(updating(nodes, node(func(n *corev1.Node) { n.OwnerReferences = []metav1.OwnerReference{{Name: "o"}} }), node(nil)), "n1"), `node "n1" is not allowed to modify ownerReferences`},
		{"a source", byNode(updating(nodes, node(func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} }), node(nil)), "n1"), `node "n1" is not allowed to update configSource to a new non-nil configSource`},
		{"deletion of another", byNode(deleting(nodes, node(nil)), "n2"), `node "n1" is not allowed to modify node "n2"`},
	} {
		restricted(t, nodeRestriction(), tt.what, tt.a, tt.reason)
	}
}

func TestNodeRestrictionOfOwnObjects(t *testing.T) {
	t.Parallel()
	leases, slices := resource("coordination.k8s.io", "leases", ""), resource("resource.k8s.io", "resourceslices", "")
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	csi := func(name string) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	slice := func(node *string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{NodeName: node}}
	}
	claim := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1"}}
		if change != nil {
			change(c)
		}
		return c
	}
	size := func(c *corev1.PersistentVolumeClaim) {
		c.ResourceVersion, c.Status.Conditions = "2", []corev1.PersistentVolumeClaimCondition{{Type: "Resizing"}}
	}
	inLeases := func(a *admission.Attributes) *admission.Attributes { a.Namespace = "kube-node-lease"; return a }
	claimStatus := resource("", "persistentvolumeclaims", "status")
	for _, tt := range []struct {
		what   string
		a      *admission.Attributes
		reason string
	}{
		{"lease", inLeases(byNode(creating(leases, lease("n1")), "")), ""},
		{"another's lease", inLeases(byNode(creating(leases, lease("n2")), "")), "can only access node lease with the same name as the requesting node"},
		{"update of another's lease", inLeases(byNode(updating(leases, lease("n2"), lease("n2")), "n2")), "can only access node lease with the same name as the requesting node"},
		{"lease elsewhere", byNode(creating(leases, lease("n1")), ""), `can only access leases in the "kube-node-lease" system namespace`},
		{"CSINode", byNode(creating(resource("storage.k8s.io", "csinodes", ""), csi("n1")), ""), ""},
		{"another's CSINode", byNode(deleting(resource("storage.k8s.io", "csinodes", ""), csi("n2")), "n2"), "can only access CSINode with the same name as the requesting node"},
		{"slice", byNode(creating(slices, slice(ptr("n1"))), ""), ""},
		{"another's slice", byNode(creating(slices, slice(ptr("n2"))), ""), "can only create ResourceSlice with the same NodeName as the requesting node"},
		{"slice of none", byNode(creating(slices, slice(nil)), ""), "can only create ResourceSlice with the same NodeName as the requesting node"},
		{"deletion of another's slice", byNode(deleting(slices, slice(ptr("n2"))), ""), "can only delete ResourceSlice with the same NodeName as the requesting node"},
		{"deletion of a slice", byNode(deleting(slices, slice(ptr("n1"))), ""), ""},
		{"claim", byNode(updating(resource("", "persistentvolumeclaims", ""), claim(nil), claim(nil)), "c"), "may only update PVC status"},
		{"size of a claim", byNode(updating(claimStatus, claim(size), claim(nil)), "c"), ""},
		{"phase of a claim", byNode(updating(claimStatus, claim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = "Bound" }), claim(nil)), "c"), `node "n1" is not allowed to update fields other than status.quantity and status.conditions`},
		{"labels of a claim", byNode(updating(claimStatus, claim(func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} }), claim(nil)), "c"), `node "n1" is not allowed to update fields other than status.quantity and status.conditions`},
		{"an event", byNode(creating(resource("", "events", ""), &corev1.Event{}), ""), ""},
	} {
		restricted(t, nodeRestriction(), tt.what, tt.a, tt.reason)
	}
}

func TestNodeRestrictionOfTokens(t *testing.T) {
	t.Parallel()
	token := func(pod, uid string, audiences ...string) *authenticationv1.TokenRequest {
		return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences: audiences, BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID(uid)},
		}}
	}
	const missing = `audience %q not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience`
	for _, tt := range []struct {
		what   string
		asked  *authenticationv1.TokenRequest
		reason string
	}{
		{"unbound", &authenticationv1.TokenRequest{}, "node requested token not bound to a pod"},
		{"without a uid", token("mine", ""), "node requested token with a pod binding without a uid"},
		{"of a pod before", token("mine", "x"), "the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated"},
		{"of none", token("none", "x"), `*errors.StatusError things "none" not found`},
		{"of another's", token("theirs", "uid-theirs"), "node requested token bound to a pod scheduled on a different node"},
		{"named by the pod", token("mine", "uid-mine", "vault"), ""},
		{"named by a driver", token("mine", "uid-mine", "aud-d"), ""},
		{"named by a driver of a migrated volume", token("mine", "uid-mine", "aud-ebs.csi.aws.com"), ""},
		{"by right", token("mine", "uid-mine", "allowed"), ""},
		{"not named", token("mine", "uid-mine", "other"), fmt.Sprintf(missing, "other")},
		{"for the server, not named", token("mine", "uid-mine"), fmt.Sprintf(missing, "")},
		{"for the server", token("mirror", "uid-mirror"), ""},
		{"two", token("mine", "uid-mine", "vault", "other"), "node may only request 0 or 1 audiences"},
		{"with a claim that is gone", token("unbound", "uid-unbound", "x"), `error validating audience "x": things "gone" not found`},
	} {
		restricted(t, nodeRestriction(), tt.what, byNode(creating(resource("", "serviceaccounts", "token"), tt.asked), "bot"), tt.reason)
	}
	open := nodeRestriction()
	open.AnyAudience = true
	restricted(t, open, "any", byNode(creating(resource("", "serviceaccounts", "token"), token("mine", "uid-mine", "a", "b")), "bot"), "")
	restricted(t, open, "an account", byNode(creating(resource("", "serviceaccounts", ""), &corev1.ServiceAccount{}), "bot"), "")
}

func TestNodeRestrictionOfCertificates(t *testing.T) {
	t.Parallel()
	requests := resource("certificates.k8s.io", "certificatesigningrequests", "")
	asking := func(signer, name string) *certificatesv1.CertificateSigningRequest {
		return csr(func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.SignerName, c.Spec.Request = signer, []byte(certificateRequest(t, pkix.Name{CommonName: name}))
		})
	}
	const serving, client = certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName
	const refused = "can only create a node CSR with CN=system:node:n1"
	p := nodeRestriction()
	restricted(t, p, "own", byNode(creating(requests, asking(serving, "system:node:n1")), ""), "")
	restricted(t, p, "another's", byNode(creating(requests, asking(client, "system:node:n2")), ""), refused)
	restricted(t, p, "another's to serve", byNode(creating(requests, asking(serving, "system:node:n2")), ""), refused)
	restricted(t, p, "of another signer", byNode(creating(requests, asking("example.com/s", "x")), ""), "")
	restricted(t, p, "none", byNode(creating(requests, csr(func(c *certificatesv1.CertificateSigningRequest) { c.Spec.SignerName = client })), ""), "unable to parse csr: PEM block type must be CERTIFICATE REQUEST")
	p.AnyCertificate = true
	restricted(t, p, "any", byNode(creating(requests, asking(client, "system:node:n2")), ""), "")
}

func TestNodeRestrictionOfPodCertificates(t *testing.T) {
	t.Parallel()
	requests := resource("certificates.k8s.io", "podcertificaterequests", "")
	ask := func(change func(*certificatesv1.PodCertificateRequestSpec)) *certificatesv1.PodCertificateRequest {
		r := &certificatesv1.PodCertificateRequest{Spec: certificatesv1.PodCertificateRequestSpec{
			PodName: "mine", PodUID: "uid-mine", NodeName: "n1", NodeUID: "uid-n1", ServiceAccountName: "bot", ServiceAccountUID: "uid-bot",
		}}
		change(&r.Spec)
		return r
	}
	for reason, change := range map[string]func(*certificatesv1.PodCertificateRequestSpec){
		"": func(*certificatesv1.PodCertificateRequestSpec) {},
		`PodCertificateRequest.Spec.NodeName="n2", which is not the requesting node "n1"`: func(s *certificatesv1.PodCertificateRequestSpec) { s.NodeName = "n2" },
		`*errors.StatusError PodCertificateRequest for pod "a/mine" names node UID "x", inconsistent with the running node ("uid-n1")`: func(s *certificatesv1.PodCertificateRequestSpec) {
			s.NodeUID = "x"
		},
		`*errors.StatusError while retrieving pod "a/none" named in the PodCertificateRequest: things "none" not found`:               func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName = "none" },
		`while retrieving pod "a/broken" named in the PodCertificateRequest: disk trouble`:                                            func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName = "broken" },
		`*errors.StatusError PodCertificateRequest for pod "a/mine" contains pod UID ("x") which differs from running pod "uid-mine"`: func(s *certificatesv1.PodCertificateRequestSpec) { s.PodUID = "x" },
		`pod "a/theirs" is not running on node "n1" named in the PodCertificateRequest`:                                               func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName, s.PodUID = "theirs", "uid-theirs" },
		`pod "a/mirror" is a mirror pod`: func(s *certificatesv1.PodCertificateRequestSpec) { s.PodName, s.PodUID = "mirror", "uid-mirror" },
		`PodCertificateRequest for pod "a/mine" contains serviceAccountName ("x") that differs from running pod ("bot")`:                                       func(s *certificatesv1.PodCertificateRequestSpec) { s.ServiceAccountName = "x" },
		`*errors.StatusError PodCertificateRequest for pod "a/mine" names service account UID "x", which differs from the running service account ("uid-bot")`: func(s *certificatesv1.PodCertificateRequestSpec) { s.ServiceAccountUID = "x" },
	} {
		restricted(t, nodeRestriction(), reason, byNode(creating(requests, ask(change)), ""), reason)
	}
	p := nodeRestriction()
	p.PodCertificates = false
	restricted(t, p, "off", byNode(creating(requests, ask(func(*certificatesv1.PodCertificateRequestSpec) {})), ""), "PodCertificateRequest feature gate is disabled")
}
