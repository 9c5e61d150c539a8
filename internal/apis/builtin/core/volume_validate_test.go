package core

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
	"mainstay.dev/mainstay/internal/feature"
)

type (
	volume     = corev1.PersistentVolume
	volumeCase = validationtest.Case[volume]
	claim      = corev1.PersistentVolumeClaim
	claimCase  = validationtest.Case[claim]
)

func storage(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(amount)}
}

func newVolume() *volume {
	pv := &volume{Spec: corev1.PersistentVolumeSpec{
		Capacity: storage("1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "h"}},
		VolumeMode:             new(corev1.PersistentVolumeFilesystem), PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
	}}
	pv.Name = "pv"
	return pv
}

// from returns a function that replaces the source of a volume.
func from(source corev1.PersistentVolumeSource) func(*volume) {
	return func(pv *volume) { pv.Spec.PersistentVolumeSource = source }
}

func nodesWith(key string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
	}}}}
}

func TestPersistentVolumes(t *testing.T) {
	t.Parallel()
	rules := validationtest.Rules[volume](validatePersistentVolume)
	rules.Create(t, newVolume, []volumeCase{
		{Name: "nothing", Change: func(pv *volume) { pv.Spec = corev1.PersistentVolumeSpec{} }, Want: []string{
			"spec.accessModes: Required", "spec: Required value: must specify a volume type", "spec.capacity: Required", "spec.capacity: Unsupported value: null",
		}},
		{Name: "one pod and others", Change: func(pv *volume) { pv.Spec.AccessModes = append(pv.Spec.AccessModes, corev1.ReadWriteOncePod) },
			Want: []string{"spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"}},
		{Name: "one pod, twice", Change: func(pv *volume) {
			pv.Spec.AccessModes = slices.Repeat([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, 2)
		}},
		{Name: "no room", Change: func(pv *volume) { pv.Spec.Capacity = storage("0") }, Want: []string{"spec.capacity[storage]: Invalid value: \"0\": must be greater than zero"}},
		{Name: "CPUs", Change: func(pv *volume) { pv.Spec.Capacity["cpu"] = resource.MustParse("1") }, Want: []string{"spec.capacity: Unsupported value"}},
		{Name: "two places", Change: func(pv *volume) { pv.Spec.NFS = &corev1.NFSVolumeSource{Server: "s", Path: "/"} },
			Want: []string{"spec.csi: Forbidden: may not specify more than 1 volume type"}},
		{Name: "a flexVolume besides", Change: func(pv *volume) { pv.Spec.FlexVolume = &corev1.FlexPersistentVolumeSource{Driver: "d"} },
			Want: []string{"spec.csi: Forbidden: may not specify more than 1 volume type"}},
		{Name: "the whole node, recycled", Change: func(pv *volume) {
			pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/./"}}
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
		}, Want: []string{"spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"}},
		{Name: "a disk of any node", Change: from(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/a/../b"}}),
			Want: []string{"spec.local.path: Invalid value", "spec.nodeAffinity: Required value: Local volume requires node affinity"}},
		{Name: "no nodes", Change: func(pv *volume) { pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{} }, Want: []string{"spec.nodeAffinity.required: Required"}},
		{Name: "a class of attributes", Change: func(pv *volume) { pv.Spec.VolumeAttributesClassName = new("") },
			Want: []string{"spec.volumeAttributesClassName: Required value: an empty string is disallowed"}},
		{Name: "names and modes", Change: func(pv *volume) {
			pv.Spec.StorageClassName, pv.Spec.VolumeMode, pv.Spec.PersistentVolumeReclaimPolicy = "A", new(corev1.PersistentVolumeMode("x")), "y"
		}, Want: []string{"spec.persistentVolumeReclaimPolicy: Unsupported", "spec.storageClassName: Invalid", "spec.volumeMode: Unsupported"}},
	})
}

func TestPersistentVolumeSources(t *testing.T) {
	t.Parallel()
	validationtest.Rules[volume](validatePersistentVolume).Create(t, newVolume, []volumeCase{
		{Name: "csi", Change: func(pv *volume) { pv.Spec.CSI.NodeExpandSecretRef = &corev1.SecretReference{Namespace: "A"} },
			Want: []string{"spec.csi.nodeExpandSecretRef.name: Required", "spec.csi.nodeExpandSecretRef.namespace: Invalid"}},
		{Name: "glusterfs", Change: from(corev1.PersistentVolumeSource{Glusterfs: &corev1.GlusterfsPersistentVolumeSource{EndpointsNamespace: new("")}}),
			Want: []string{"glusterfs.endpoints: Required", "glusterfs.path: Required", "endpointsNamespace: Invalid value: \"\": if the endpointnamespace is set"}},
		{Name: "gcePersistentDisk", Change: from(corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{Partition: 256}}),
			Want: []string{"spec.persistentDisk.pdName: Required", "spec.persistentDisk.partition: Invalid"}},
		{Name: "cephfs", Change: from(corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{}}), Want: []string{"spec.cephfs.monitors: Required"}},
		{Name: "rbd", Change: from(corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{}}), Want: []string{"spec.rbd.monitors: Required", "spec.rbd.image: Required"}},
		{Name: "cinder", Change: from(corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{SecretRef: &corev1.SecretReference{Name: "s"}}}),
			Want: []string{"spec.cinder.volumeID: Required", "spec.cinder.secretRef.namespace: Required"}},
		{Name: "azureFile", Change: from(corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s", SecretNamespace: new("")}}),
			Want: []string{"spec.azureFile.shareName: Required", "spec.azureFile.secretNamespace: Required"}},
		{Name: "storageos", Change: from(corev1.PersistentVolumeSource{StorageOS: &corev1.StorageOSPersistentVolumeSource{VolumeNamespace: "A", SecretRef: &corev1.ObjectReference{}}}),
			Want: []string{"volumeName: Required", "volumeNamespace: Invalid", "secretRef.name: Required", "secretRef.namespace: Required"}},
		{Name: "scaleIO", Change: from(corev1.PersistentVolumeSource{ScaleIO: &corev1.ScaleIOPersistentVolumeSource{}}),
			Want: []string{"spec.scaleIO.gateway: Required", "spec.scaleIO.system: Required", "spec.scaleIO.volumeName: Required"}},
		{Name: "quobyte", Change: from(corev1.PersistentVolumeSource{Quobyte: &corev1.QuobyteVolumeSource{Registry: "a:1,b", Volume: "v"}}), Want: []string{"spec.quobyte.registry: Invalid"}},
		{Name: "iscsi", Change: from(corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{
			TargetPortal: strings.Repeat("p", 62), IQN: "iqn.2016-04.test.com:storage", InitiatorName: new("x"), SessionCHAPAuth: true,
		}}), Want: []string{"initiatorname: Invalid value: \"x\": must be valid format", "targetportal: Invalid value", "spec.iscsi.secretRef: Required"}},
		{Name: "names of iSCSI", Change: from(corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{
			TargetPortal: "p", IQN: "iqn.2016-04.test.com", InitiatorName: new("eui.0123456789abcdef"),
		}}), Want: []string{"spec.iscsi.iqn: Invalid value"}},
	})
}

func TestPersistentVolumeUpdates(t *testing.T) {
	t.Parallel()
	rules := validationtest.Rules[volume](validatePersistentVolume)
	rules.Update(t, newVolume, []volumeCase{
		{Name: "what may change", Change: func(pv *volume) {
			pv.Spec.Capacity, pv.Spec.StorageClassName, pv.Spec.MountOptions = storage("2Gi"), "c", []string{"ro"}
			pv.Spec.NodeAffinity, pv.Spec.VolumeAttributesClassName = nodesWith("zone"), new("gold")
			pv.Spec.CSI.ControllerExpandSecretRef = &corev1.SecretReference{Namespace: "ns", Name: "s"}
		}},
		{Name: "another secret", Change: func(pv *volume) {
			pv.Spec.CSI.NodeExpandSecretRef = &corev1.SecretReference{Namespace: "ns", Name: "s"}
		},
			Want: []string{"spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n"}},
		{Name: "another mode", Change: func(pv *volume) { pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) },
			Want: []string{`volumeMode: Invalid value: "Block": field is immutable`}},
	})
	near := func() *volume {
		pv := newVolume()
		pv.Spec.NodeAffinity, pv.Spec.VolumeAttributesClassName = nodesWith(corev1.LabelFailureDomainBetaZone), new("gold")
		return pv
	}
	rules.Update(t, near, []volumeCase{
		{Name: "the stable name of the label", Change: func(pv *volume) { pv.Spec.NodeAffinity = nodesWith(corev1.LabelTopologyZone) }},
		{Name: "another label", Change: func(pv *volume) { pv.Spec.NodeAffinity = nodesWith(corev1.LabelTopologyRegion) },
			Want: []string{"nodeAffinity: Invalid value"}},
		{Name: "any node", Change: func(pv *volume) { pv.Spec.NodeAffinity = nil }, Want: []string{"nodeAffinity: Invalid value: null: field is immutable, except for"}},
		{Name: "no class of attributes", Change: func(pv *volume) { pv.Spec.VolumeAttributesClassName = nil },
			Want: []string{"spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"}},
	})
	rules.Update(t, func() *volume {
		pv := newVolume()
		pv.Spec.NodeAffinity = nodesWith("zone")
		pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "a b" // stored before the validation rule existed
		return pv
	}, nil)
	gates, err := feature.Defaults().Parse("MutablePVNodeAffinity=true")
	if err != nil {
		t.Fatal(err)
	}
	moved := near()
	moved.Spec.NodeAffinity = nodesWith("zone")
	if faults := validationtest.Errors(t, gates, func(f validation.Field) { validatePersistentVolume(f, moved, near()) }); len(faults) > 0 {
		t.Errorf("with the gate: %q", faults)
	}
}

func newClaim() *claim {
	return &claim{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: storage("5Gi")}, VolumeMode: new(corev1.PersistentVolumeFilesystem),
	}}
}

func boundClaim() *claim {
	c := newClaim()
	c.Spec.VolumeName, c.Spec.VolumeAttributesClassName = "pv", new("gold")
	c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: storage("3Gi")}
	return c
}

func TestVolumeClaims(t *testing.T) {
	t.Parallel()
	validationtest.Rules[claim](validateVolumeClaim).Create(t, newClaim, []claimCase{
		{Name: "nothing", Change: func(c *claim) { c.Spec = corev1.PersistentVolumeClaimSpec{} }, Want: []string{"spec.accessModes: Required", "spec.resources[storage]: Required"}},
		{Name: "no room", Change: func(c *claim) { c.Spec.Resources.Requests = storage("0") }, Want: []string{"spec.resources[storage]: Invalid value: \"0\": must be greater than zero"}},
		{Name: "sources that differ", Change: func(c *claim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "a"}
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "b"}
		}, Want: []string{"must match dataSourceRef"}},
		{Name: "a group that is none", Change: func(c *claim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("A"), Kind: "k", Name: "n"}
		}, Want: []string{"spec.dataSourceRef.apiGroup: Invalid value"}},
	})
}

func TestVolumeClaimUpdates(t *testing.T) {
	t.Parallel()
	const immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
	rules := validationtest.Rules[claim](validateVolumeClaim)
	rules.Update(t, newClaim, []claimCase{
		{Name: "its volume and its class", Change: func(c *claim) { c.Spec.VolumeName, c.Spec.StorageClassName = "pv", new("c") }},
		{Name: "more", Change: func(c *claim) { c.Spec.Resources.Requests = storage("6Gi") }, Want: []string{immutable}},
		{Name: "another mode", Change: func(c *claim) { c.Spec.VolumeMode = nil }, Want: []string{immutable, "volumeMode: Invalid value: null: field is immutable"}},
		{Name: "a class in an annotation", Change: func(c *claim) { c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "c"} },
			Want: []string{`metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: "c": field is immutable`}},
	})
	rules.Update(t, boundClaim, []claimCase{
		{Name: "more", Change: func(c *claim) { c.Spec.Resources.Requests = storage("6Gi") }},
		{Name: "less than was asked for", Change: func(c *claim) { c.Spec.Resources.Requests = storage("4Gi") }},
		{Name: "what is there", Change: func(c *claim) { c.Spec.Resources.Requests = storage("3Gi") },
			Want: []string{"spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"}},
		{Name: "other attributes", Change: func(c *claim) { c.Spec.VolumeAttributesClassName = new("silver") }},
		{Name: "the attributes from before", Change: func(c *claim) { c.Spec.VolumeAttributesClassName = nil }},
		{Name: "another volume", Change: func(c *claim) { c.Spec.VolumeName = "other" }, Want: []string{immutable}},
		{Name: "CPUs", Change: func(c *claim) { c.Spec.Resources.Requests["cpu"] = resource.MustParse("1") }, Want: []string{immutable}},
	})
	annotated := func() *claim {
		c := newClaim()
		c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "c"}
		return c
	}
	rules.Update(t, annotated, []claimCase{
		{Name: "from the annotation to the field", Change: func(c *claim) { c.Annotations, c.Spec.StorageClassName = nil, new("c") }},
		{Name: "in both", Change: func(c *claim) { c.Spec.StorageClassName = new("c") }},
		{Name: "another class", Change: func(c *claim) { c.Spec.StorageClassName = new("d") }, Want: []string{immutable}},
	})
	rules.Update(t, func() *claim {
		c := newClaim()
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new("A"), Kind: "k", Name: "n"}
		c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("A"), Kind: "k", Name: "n"}
		return c
	}, nil)
}

func TestVolumeClaimStatuses(t *testing.T) {
	t.Parallel()
	validationtest.Rules[claim](validateVolumeClaimStatus).Update(t, boundClaim, []claimCase{
		{Name: "while it grows", Change: func(c *claim) {
			c.Status.AllocatedResources = storage("6Gi")
			c.Status.AllocatedResources["example.com/iops"] = resource.MustParse("1")
			c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"storage": corev1.PersistentVolumeClaimNodeResizePending}
		}},
		{Name: "less than nothing", Change: func(c *claim) { c.Status.Capacity, c.Status.AllocatedResources = storage("-1"), storage("-1") },
			Want: []string{"status.capacity[storage]: Invalid value: -1", "status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity"}},
		{Name: "CPUs", Change: func(c *claim) { c.Status.AllocatedResources = corev1.ResourceList{"cpu": resource.MustParse("-1")} },
			Want: []string{`status.allocatedResources: Unsupported value: "cpu": supported values: "storage"`}},
		{Name: "a state that is none", Change: func(c *claim) {
			c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"storage": "x"}
		}, Want: []string{`status.allocatedResourceStatuses: Unsupported value: "storage": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible"`}},
		{Name: "its health", Change: func(c *claim) {
			c.Status.HealthStatus = &corev1.VolumeHealthStatus{HealthConditions: []corev1.VolumeHealthCondition{{Status: corev1.VolumeHealthDataLoss}}}
		}, Want: []string{"status.healthStatus.healthConditions[0].reason: Required value"}},
	})
}

// TestVolumeClaimUpdateSources checks that an update of a claim that has a data source does not drop the
// client's data source, so that validation rejects the change.
func TestVolumeClaimUpdateSources(t *testing.T) {
	t.Parallel()
	op := &builtin.Operation{Env: &builtin.Env{Gates: feature.Defaults()}}
	custom := &corev1.TypedLocalObjectReference{APIGroup: new("example.com"), Kind: "Thing", Name: "a"}
	sent, plain, old := newClaim(), newClaim(), newClaim()
	sent.Spec.DataSource, plain.Spec.DataSource = custom, custom
	old.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "a"}
	prepareVolumeClaimUpdate(op, sent, old)
	prepareVolumeClaimUpdate(op, plain, newClaim())
	if diff := cmp.Diff(custom, sent.Spec.DataSource); diff != "" || sent.Spec.DataSourceRef == nil {
		t.Errorf("the client's data source was not kept although the old claim has one: %s", diff)
	}
	if plain.Spec.DataSource != nil {
		t.Error("an ignored data source was not dropped")
	}
}

func TestVolumeWarnings(t *testing.T) {
	t.Parallel()
	pv := newVolume()
	pv.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "c", corev1.MountOptionAnnotation: "ro"}
	pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.NodeAffinity = corev1.PersistentVolumeReclaimRecycle, nodesWith("beta.kubernetes.io/os")
	pv.Spec.RBD = &corev1.RBDPersistentVolumeSource{}
	c := newClaim()
	c.Spec.Resources.Limits = storage("1500m")
	want := []string{
		`metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead`,
		`metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use "mountOptions" attribute instead`,
		"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
		`spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use "kubernetes.io/os" instead`,
		"spec.rbd: deprecated in v1.28, non-functional in v1.31+",
		`spec.resources.limits[storage]: fractional byte value "1500m" is invalid, must be an integer`,
	}
	if diff := cmp.Diff(want, slices.Concat(persistentVolumeWarnings(nil, pv, nil), volumeClaimWarnings(nil, c, nil))); diff != "" {
		t.Error(diff)
	}
}
