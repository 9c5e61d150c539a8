package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// PrepareForCreate returns a hook for Strategy.PrepareForCreate. The hook drops the fields of disabled
// features from the pod spec that spec returns.
func PrepareForCreate[T any](spec func(*T) *corev1.PodSpec) func(*builtin.Operation, *T) {
	return func(op *builtin.Operation, obj *T) { DropDisabledFields(op.Env.Gates, spec(obj), nil) }
}

// PrepareForUpdate returns a hook for Strategy.PrepareForUpdate. The hook drops the fields of disabled
// features, except fields that the old object uses.
func PrepareForUpdate[T any](spec func(*T) *corev1.PodSpec) func(*builtin.Operation, *T, *T) {
	return func(op *builtin.Operation, obj, old *T) { DropDisabledFields(op.Env.Gates, spec(obj), spec(old)) }
}

// DropDisabledFields clears the fields of disabled features in spec, unless old uses them. Both arguments may
// be nil. Feature gates that are locked to their default are not checked.
func DropDisabledFields(gates feature.Gates, spec, old *corev1.PodSpec) {
	if spec == nil {
		return
	}
	builtin.DropDisabledFields(gates, []builtin.GatedFields[*corev1.PodSpec]{
		{Gate: feature.GenericWorkload, Visit: schedulingGroup},
		{Gate: feature.EvictionRequestAPI, Visit: evictionResponders},
		{Gate: feature.MatchLabelKeysInPodTopologySpread, Visit: spreadLabelKeys},
		{Gate: feature.ContainerRestartRules, Visit: restartRules},
		{Gate: feature.ContainerStopSignals, Visit: stopSignals},
		{Gate: feature.H2CContainerProbe, Visit: httpProtocols},
		{Gate: feature.GRPCContainerProbeTLS, Visit: grpcModes},
		{Gate: feature.VolumeBindMountOptions, Visit: mountOptions},
		{Gate: feature.EmptyDirVolumeMode, Visit: emptyDirModes},
		{Gate: feature.AtomicWriteVolumeUserFields, Visit: fileOwners},
		{Gate: feature.ClusterTrustBundleProjection, Visit: trustBundles},
		{Gate: feature.PodCertificateRequest, Visit: podCertificates},
	}, spec, old)
}

// The following functions are hooks for GatedFields.Visit.

func schedulingGroup(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	builtin.VisitField(u, &spec.SchedulingGroup)
}

func evictionResponders(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	builtin.VisitField(u, &spec.EvictionResponders)
}

func spreadLabelKeys(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	for i := range spec.TopologySpreadConstraints {
		builtin.VisitField(u, &spec.TopologySpreadConstraints[i].MatchLabelKeys)
	}
}

// restartRules visits the restart rules of all containers and the restart policies of containers and init
// containers. It skips init containers with the policy Always, because sidecars are older than the feature.
func restartRules(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	eachContainer(spec, func(c *corev1.Container) {
		builtin.VisitField(u, &c.RestartPolicyRules)
	})
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; !restartable(c) {
			builtin.VisitField(u, &c.RestartPolicy)
		}
	}
	for i := range spec.Containers {
		builtin.VisitField(u, &spec.Containers[i].RestartPolicy)
	}
}

// stopSignals visits stop signals. It also removes a lifecycle that would otherwise be empty.
func stopSignals(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	eachContainer(spec, func(c *corev1.Container) {
		if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
			return
		}
		builtin.VisitField(u, &c.Lifecycle.StopSignal)
		if *c.Lifecycle == (corev1.Lifecycle{}) {
			c.Lifecycle = nil
		}
	})
}

func httpProtocols(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	get := func(g *corev1.HTTPGetAction) {
		if g != nil {
			builtin.VisitField(u, &g.Protocol)
		}
	}
	eachProbe(spec, func(p *corev1.Probe) { get(p.HTTPGet) })
	eachContainer(spec, func(c *corev1.Container) {
		if c.Lifecycle == nil {
			return
		}
		for _, handler := range [...]*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if handler != nil {
				get(handler.HTTPGet)
			}
		}
	})
}

func grpcModes(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	eachProbe(spec, func(p *corev1.Probe) {
		if p.GRPC != nil {
			builtin.VisitField(u, &p.GRPC.Mode)
		}
	})
}

func mountOptions(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	eachContainer(spec, func(c *corev1.Container) {
		for i := range c.VolumeMounts {
			builtin.VisitField(u, &c.VolumeMounts[i].BindMountOptions)
		}
	})
}

func emptyDirModes(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		if s := spec.Volumes[i].EmptyDir; s != nil {
			builtin.VisitField(u, &s.Mode)
		}
	}
}

func fileOwners(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	eachOwner(spec, func(user **int64) {
		builtin.VisitField(u, user)
	})
}

func trustBundles(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	eachProjection(spec, func(source *corev1.VolumeProjection) {
		builtin.VisitField(u, &source.ClusterTrustBundle)
	})
}

func podCertificates(u *builtin.FieldVisitor, spec *corev1.PodSpec) {
	eachProjection(spec, func(source *corev1.VolumeProjection) {
		builtin.VisitField(u, &source.PodCertificate)
	})
}

func eachProjection(spec *corev1.PodSpec, f func(*corev1.VolumeProjection)) {
	for i := range spec.Volumes {
		if s := spec.Volumes[i].Projected; s != nil {
			for j := range s.Sources {
				f(&s.Sources[j])
			}
		}
	}
}

func eachContainer(spec *corev1.PodSpec, f func(*corev1.Container)) {
	for i := range spec.InitContainers {
		f(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		f(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		f((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

func eachProbe(spec *corev1.PodSpec, f func(*corev1.Probe)) {
	eachContainer(spec, func(c *corev1.Container) {
		for _, probe := range [...]*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if probe != nil {
				f(probe)
			}
		}
	})
}

// eachOwner calls f for each field in a volume that specifies the user who owns files.
func eachOwner(spec *corev1.PodSpec, f func(user **int64)) {
	for i := range spec.Volumes {
		volume := &spec.Volumes[i]
		if s := volume.Secret; s != nil {
			f(&s.DefaultUser)
			eachKeyOwner(s.Items, f)
		}
		if s := volume.ConfigMap; s != nil {
			f(&s.DefaultUser)
			eachKeyOwner(s.Items, f)
		}
		if s := volume.DownwardAPI; s != nil {
			f(&s.DefaultUser)
			eachFileOwner(s.Items, f)
		}
		if s := volume.Projected; s != nil {
			f(&s.DefaultUser)
			for j := range s.Sources {
				eachProjectedOwner(&s.Sources[j], f)
			}
		}
	}
}

func eachProjectedOwner(source *corev1.VolumeProjection, f func(user **int64)) {
	if s := source.Secret; s != nil {
		eachKeyOwner(s.Items, f)
	}
	if s := source.ConfigMap; s != nil {
		eachKeyOwner(s.Items, f)
	}
	if s := source.DownwardAPI; s != nil {
		eachFileOwner(s.Items, f)
	}
	if s := source.ServiceAccountToken; s != nil {
		f(&s.User)
	}
	if s := source.ClusterTrustBundle; s != nil {
		f(&s.User)
	}
	if s := source.PodCertificate; s != nil {
		f(&s.User)
	}
}

func eachKeyOwner(items []corev1.KeyToPath, f func(user **int64)) {
	for i := range items {
		f(&items[i].User)
	}
}

func eachFileOwner(items []corev1.DownwardAPIVolumeFile, f func(user **int64)) {
	for i := range items {
		f(&items[i].User)
	}
}
