package storage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
	"mainstay.dev/mainstay/internal/apitest/alloctest"
	"mainstay.dev/mainstay/internal/feature"
)

func validClass() *storagev1.StorageClass {
	class := &storagev1.StorageClass{Provisioner: "csi.example.com", Parameters: map[string]string{"type": "ssd"}}
	defaultClass(class)
	return class
}

func topologyOf(pairs ...string) corev1.TopologySelectorTerm {
	var term corev1.TopologySelectorTerm
	for _, pair := range pairs {
		key, values, _ := strings.Cut(pair, "=")
		term.MatchLabelExpressions = append(term.MatchLabelExpressions, corev1.TopologySelectorLabelRequirement{Key: key, Values: strings.Fields(values)})
	}
	return term
}

func TestClass(t *testing.T) {
	t.Parallel()
	type class = storagev1.StorageClass
	topologies := func(terms ...corev1.TopologySelectorTerm) func(*class) {
		return func(c *class) { c.AllowedTopologies = terms }
	}
	many := map[string]string{}
	for i := range maxParameters + 1 {
		many[strings.Repeat("k", i+1)] = ""
	}
	validationtest.Rules[class](validateClass).Create(t, validClass, []validationtest.Case[class]{
		{Name: "upper case", Change: func(c *class) { c.Provisioner = "CSI.example.com/x" }},
		{Name: "no policy", Change: func(c *class) { c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimPolicy) }},
		{Name: "no mode", Change: func(c *class) { c.VolumeBindingMode = nil }, Want: []string{"volumeBindingMode: Required value"}},
		{Name: "maximum size of parameters", Change: func(c *class) { c.Parameters = map[string]string{"a": strings.Repeat("x", maxParametersSize-1)} }},
		{Name: "large parameters", Change: func(c *class) { c.Parameters = map[string]string{"a": strings.Repeat("x", maxParametersSize)} }, Want: []string{"parameters: Too long"}},
		{Name: "many parameters", Change: func(c *class) { c.Parameters = many }, Want: []string{"parameters: Too long: may not be more than 512"}},
		{Name: "topologies", Change: topologies(topologyOf("zone=a b", "rack=c"), topologyOf("zone=a c", "rack=c"), topologyOf("zone=a b"))},
		{Name: "duplicate in another order", Change: topologies(topologyOf("zone=a b", "rack=c"), topologyOf("rack=c", "zone=b a")), Want: []string{"allowedTopologies[1].matchLabelExpressions: Duplicate value"}},
		{Name: "nothing", Change: topologies(topologyOf()), Want: []string{"allowedTopologies[0].matchLabelExpressions: Duplicate value"}},
	})
	validationtest.Rules[class](validateClass).Update(t, validClass, []validationtest.Case[class]{
		{Name: "expansion", Change: func(c *class) { c.AllowVolumeExpansion = new(bool) }},
		{Name: "options", Change: func(c *class) { c.MountOptions = []string{"ro"} }},
		{Name: "topologies", Change: topologies(topologyOf("zone=a"))},
		{Name: "parameters", Change: func(c *class) { c.Parameters = nil }, Want: []string{"parameters: Invalid value: null: field is immutable"}},
	})
}

func TestAttributesClass(t *testing.T) {
	t.Parallel()
	type class = storagev1.VolumeAttributesClass
	valid := func() *class {
		return &class{DriverName: "csi.example.com", Parameters: map[string]string{"iops": "100"}}
	}
	validationtest.Rules[class](validateAttributesClass).Create(t, valid, []validationtest.Case[class]{
		{Name: "no parameters", Change: func(c *class) { c.Parameters = nil }, Want: []string{"parameters: Required value: must contain at least one key/value pair"}},
	})
	validationtest.Rules[class](validateAttributesClass).Update(t, valid, []validationtest.Case[class]{
		{Name: "driver", Change: func(c *class) { c.DriverName = "b" }, Want: []string{"driverName: Forbidden: updates to driverName are forbidden."}},
		{Name: "parameters", Change: func(c *class) { c.Parameters["iops"] = "200" }, Want: []string{"parameters: Forbidden: updates to parameters are forbidden."}},
	})
}

func TestDriver(t *testing.T) {
	t.Parallel()
	type driver = storagev1.CSIDriver
	valid := func() *driver {
		d := &driver{}
		defaultDriver(d)
		return d
	}
	tokens := func(seconds ...int64) func(*driver) {
		return func(d *driver) {
			for i := range seconds {
				d.Spec.TokenRequests = append(d.Spec.TokenRequests, storagev1.TokenRequest{Audience: strings.Repeat("a", i), ExpirationSeconds: &seconds[i]})
			}
		}
	}
	validationtest.Rules[driver](validateDriver).Create(t, valid, []validationtest.Case[driver]{
		{Name: "tokens", Change: tokens(600, 1<<32)},
		{Name: "too short and too long", Change: tokens(599, 1<<32+1), Want: []string{"less than 10 minutes", "larger than 2^32 seconds"}},
		{Name: "without defaults", Change: func(d *driver) { d.Spec = storagev1.CSIDriverSpec{} }, Want: []string{
			"spec.attachedRequired: Required", "spec.podInfoOnMount: Required", "spec.storageCapacity: Required", "spec.seLinuxMount: Required",
		}},
		{Name: "period", Change: func(d *driver) { d.Spec.NodeAllocatableUpdatePeriodSeconds = new(int64) }, Want: []string{"must be greater than or equal to 10 seconds"}},
		{Name: "tokens in secrets without tokens", Change: func(d *driver) { d.Spec.ServiceAccountTokenInSecrets = new(bool) }, Want: []string{"no tokenRequests are specified"}},
	})
	validationtest.Rules[driver](validateDriver).Update(t, valid, []validationtest.Case[driver]{
		{Name: "mutable", Change: func(d *driver) { *d.Spec.PodInfoOnMount, *d.Spec.StorageCapacity = true, true }},
		{Name: "attach", Change: func(d *driver) { *d.Spec.AttachRequired = false }, Want: []string{"spec.attachedRequired: Invalid value: false: field is immutable"}},
		{Name: "modes", Change: func(d *driver) { d.Spec.VolumeLifecycleModes = nil }, Want: []string{"spec.volumeLifecycleModes"}},
	})
}

func TestNode(t *testing.T) {
	t.Parallel()
	type node = storagev1.CSINode
	valid := func() *node {
		return &node{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "a.example.com", NodeID: "n", TopologyKeys: []string{"zone"}}, {Name: "b.example.com", NodeID: "n"},
		}}}
	}
	validationtest.Rules[node](validateNode).Create(t, valid, []validationtest.Case[node]{
		{Name: "longest id", Change: func(n *node) { n.Spec.Drivers[0].NodeID = strings.Repeat("x", 256) }},
		{Name: "long id", Change: func(n *node) { n.Spec.Drivers[0].NodeID = strings.Repeat("x", 257) }, Want: []string{"must be 256 characters or less"}},
		{Name: "same names", Change: func(n *node) { n.Spec.Drivers[1].Name = "a.example.com" }, Want: []string{"spec.drivers[1].name: Duplicate value"}},
	})
	validationtest.Rules[node](validateNode).Update(t, valid, []validationtest.Case[node]{
		{Name: "a driver is replaced", Change: func(n *node) { n.Spec.Drivers[0].Name = "c.example.com" }},
		{Name: "more volumes", Change: func(n *node) { n.Spec.Drivers[0].Allocatable = &storagev1.VolumeNodeResources{Count: new(int32)} }},
		{Name: "another id", Change: func(n *node) { n.Spec.Drivers[1].NodeID = "m" }, Want: []string{"spec.drivers: Invalid value"}},
	})
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	type capacity = storagev1.CSIStorageCapacity
	valid := func() *capacity {
		return &capacity{StorageClassName: "fast", NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}}
	}
	negative := resource.MustParse("-1")
	validationtest.Rules[capacity](validateCapacity).Create(t, valid, []validationtest.Case[capacity]{
		{Name: "none", Change: func(c *capacity) { c.NodeTopology, c.Capacity = nil, new(resource.Quantity) }},
		{Name: "negative", Change: func(c *capacity) { c.Capacity = &negative }, Want: []string{"capacity: Invalid value: \"-1\": must be greater than or equal to 0"}},
		{Name: "maximum volume size is not validated", Change: func(c *capacity) { c.MaximumVolumeSize = &negative }},
		{Name: "invalid label value", Change: func(c *capacity) { c.NodeTopology.MatchLabels["zone"] = "b c" }, Want: []string{"nodeTopology.matchLabels"}},
	})
	validationtest.Rules[capacity](validateCapacity).Update(t, func() *capacity {
		stored := valid()
		stored.NodeTopology.MatchLabels["zone"] = "b c" // stored before the rules existed
		return stored
	}, []validationtest.Case[capacity]{
		{Name: "amount", Change: func(c *capacity) { c.Capacity = new(resource.Quantity) }},
		{Name: "class", Change: func(c *capacity) { c.StorageClassName = "slow" }, Want: []string{"storageClassName: Invalid value: \"slow\": field is immutable"}},
		{Name: "topology", Change: func(c *capacity) { c.NodeTopology = nil }, Want: []string{"nodeTopology: Invalid value: null: field is immutable"}},
	})
}

func TestAttachment(t *testing.T) {
	t.Parallel()
	type attachment = storagev1.VolumeAttachment
	valid := func() *attachment {
		volume := "pv"
		return &attachment{Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.example.com", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		}}
	}
	validationtest.Rules[attachment](validateAttachment).Create(t, valid, []validationtest.Case[attachment]{
		{Name: "empty volume", Change: func(a *attachment) { *a.Spec.Source.PersistentVolumeName = "" }, Want: []string{"must specify non empty persistentVolumeName", "a lowercase RFC 1123 subdomain"}},
		{Name: "no volume", Change: func(a *attachment) { a.Spec.Source.PersistentVolumeName = nil }, Want: []string{"must specify exactly one of"}},
		{Name: "inline", Change: func(a *attachment) {
			a.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{}}
		}, Want: []string{"inlineVolumeSpec.accessModes", "must specify a volume type", "inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes"}},
		{Name: "no driver", Change: func(a *attachment) { a.Spec.Attacher = "a b" }, Want: []string{"spec.attacher: Invalid value"}},
	})
	validationtest.Rules[attachment](validateAttachment).Update(t, func() *attachment {
		stored := valid()
		stored.Spec.Attacher, *stored.Spec.Source.PersistentVolumeName = "a b", "c d" // stored before v1
		return stored
	}, []validationtest.Case[attachment]{
		{Name: "node", Change: func(a *attachment) { a.Spec.NodeName = "m" }, Want: []string{"spec: Invalid value"}},
	})
	validationtest.Rules[attachment](validateAttachmentStatus).Update(t, valid, []validationtest.Case[attachment]{
		{Name: "message", Change: func(a *attachment) { a.Status.AttachError = &storagev1.VolumeError{Message: strings.Repeat("x", 1024)} }},
		{Name: "long message", Change: func(a *attachment) { a.Status.DetachError = &storagev1.VolumeError{Message: strings.Repeat("x", 1025)} }, Want: []string{"status.detachError.message: Too long: may not be more than 262144 bytes"}},
		{Name: "large metadata", Change: func(a *attachment) {
			a.Status.AttachmentMetadata = map[string]string{"a": strings.Repeat("x", maxMetadataSize)}
		}, Want: []string{"status.attachmentMetadata: Too long"}},
	})
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	class := &storagev1.StorageClass{AllowedTopologies: []corev1.TopologySelectorTerm{topologyOf("zone=a"), topologyOf("zone=a", corev1.LabelFailureDomainBetaZone+"=b")}}
	capacity := &storagev1.CSIStorageCapacity{NodeTopology: &metav1.LabelSelector{
		MatchLabels:      map[string]string{"beta.kubernetes.io/os": "linux"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "beta.kubernetes.io/arch"}},
	}}
	got := append(classWarnings(nil, class, nil), capacityWarnings(nil, capacity, nil)...)
	got = append(got, capacityWarnings(nil, &storagev1.CSIStorageCapacity{}, nil)...)
	want := []string{
		`allowedTopologies[1].matchLabelExpressions[1].key: deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
		`nodeTopology.matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead`,
		`nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use "kubernetes.io/os" instead`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestValidObjectsDoNotAllocate checks that the validation of a valid StorageClass does not allocate.
func TestValidObjectsDoNotAllocate(t *testing.T) {
	class := validClass()
	class.AllowedTopologies = []corev1.TopologySelectorTerm{topologyOf("zone=a b")}
	validator := validation.NewValidator(feature.Defaults())
	alloctest.None(t, "StorageClass", func() {
		validator.Validate(t.Context(), func(f validation.Field) { validateClass(f, class, nil) })
	})
}
