package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/apis/builtin"
	"mainstay.dev/mainstay/feature"
)

// Prepare and PrepareUpdate are the rules of a kind that makes pods of the
// specification that spec returns: fields of features that are off are dropped.
func Prepare[T any](spec func(*T) *corev1.PodSpec) func(*builtin.Operation, *T) {
	return func(op *builtin.Operation, obj *T) { DropDisabled(op.Env.Gates, spec(obj), nil) }
}

// PrepareUpdate is described with Prepare.
func PrepareUpdate[T any](spec func(*T) *corev1.PodSpec) func(*builtin.Operation, *T, *T) {
	return func(op *builtin.Operation, obj, old *T) { DropDisabled(op.Env.Gates, spec(obj), spec(old)) }
}

// Gated are the fields that a feature gate guards, in objects of a type. Take
// reports whether any of them is set, and clears them on request.
type Gated[T any] struct {
	Gate feature.Gate
	Take func(obj *T, drop bool) (used bool)
}

// Drop clears the fields if the gate is off, except where the old object uses
// them. There may be none: old is nil then.
func (g Gated[T]) Drop(gates feature.Gates, obj, old *T) {
	if !gates.Enabled(g.Gate) && (old == nil || !g.Take(old, false)) {
		g.Take(obj, true)
	}
}

// DropDisabled drops the fields of features that are off, except for those
// that the old specification uses. There may be none: old is nil then. Without
// a specification it does nothing. Gates that are locked to their default are not
// asked for.
func DropDisabled(gates feature.Gates, spec, old *corev1.PodSpec) {
	if spec == nil {
		return
	}
	for _, gated := range [...]Gated[corev1.PodSpec]{
		{feature.GenericWorkload, schedulingGroup},
		{feature.EvictionRequestAPI, evictionResponders},
		{feature.MatchLabelKeysInPodTopologySpread, spreadLabelKeys},
		{feature.ContainerRestartRules, restartRules},
		{feature.ContainerStopSignals, stopSignals},
		{feature.H2CContainerProbe, httpProtocols},
		{feature.GRPCContainerProbeTLS, grpcModes},
		{feature.VolumeBindMountOptions, mountOptions},
		{feature.EmptyDirVolumeMode, emptyDirModes},
		{feature.AtomicWriteVolumeUserFields, fileOwners},
		{feature.ClusterTrustBundleProjection, trustBundles},
		{feature.PodCertificateRequest, podCertificates},
	} {
		gated.Drop(gates, spec, old)
	}
}

// take reports whether a field is set, and clears it on request.
func take[T any](field **T, drop bool) bool {
	used := *field != nil
	if drop {
		*field = nil
	}
	return used
}

func takeList[T any](field *[]T, drop bool) bool {
	used := len(*field) > 0
	if drop {
		*field = nil
	}
	return used
}

// Each of the following is a Gated.Take.

func schedulingGroup(spec *corev1.PodSpec, drop bool) bool { return take(&spec.SchedulingGroup, drop) }

func evictionResponders(spec *corev1.PodSpec, drop bool) bool {
	return takeList(&spec.EvictionResponders, drop)
}

func spreadLabelKeys(spec *corev1.PodSpec, drop bool) (used bool) {
	for i := range spec.TopologySpreadConstraints {
		if takeList(&spec.TopologySpreadConstraints[i].MatchLabelKeys, drop) {
			used = true
		}
	}
	return used
}

// restartRules: that an init container always restarts, as sidecars do, is older
// than the feature, and stays.
func restartRules(spec *corev1.PodSpec, drop bool) (used bool) {
	eachContainer(spec, func(c *corev1.Container) {
		if takeList(&c.RestartPolicyRules, drop) {
			used = true
		}
	})
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; !restartable(c) && take(&c.RestartPolicy, drop) {
			used = true
		}
	}
	for i := range spec.Containers {
		if take(&spec.Containers[i].RestartPolicy, drop) {
			used = true
		}
	}
	return used
}

// stopSignals: a lifecycle that says nothing else goes with its signal.
func stopSignals(spec *corev1.PodSpec, drop bool) (used bool) {
	eachContainer(spec, func(c *corev1.Container) {
		if c.Lifecycle == nil || !take(&c.Lifecycle.StopSignal, drop) {
			return
		}
		used = true
		if *c.Lifecycle == (corev1.Lifecycle{}) {
			c.Lifecycle = nil
		}
	})
	return used
}

func httpProtocols(spec *corev1.PodSpec, drop bool) (used bool) {
	get := func(g *corev1.HTTPGetAction) {
		if g != nil && take(&g.Protocol, drop) {
			used = true
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
	return used
}

func grpcModes(spec *corev1.PodSpec, drop bool) (used bool) {
	eachProbe(spec, func(p *corev1.Probe) {
		if p.GRPC != nil && take(&p.GRPC.Mode, drop) {
			used = true
		}
	})
	return used
}

func mountOptions(spec *corev1.PodSpec, drop bool) (used bool) {
	eachContainer(spec, func(c *corev1.Container) {
		for i := range c.VolumeMounts {
			if takeList(&c.VolumeMounts[i].BindMountOptions, drop) {
				used = true
			}
		}
	})
	return used
}

func emptyDirModes(spec *corev1.PodSpec, drop bool) (used bool) {
	for i := range spec.Volumes {
		if s := spec.Volumes[i].EmptyDir; s != nil && take(&s.Mode, drop) {
			used = true
		}
	}
	return used
}

func fileOwners(spec *corev1.PodSpec, drop bool) (used bool) {
	eachOwner(spec, func(user **int64) {
		if take(user, drop) {
			used = true
		}
	})
	return used
}

func trustBundles(spec *corev1.PodSpec, drop bool) (used bool) {
	eachProjection(spec, func(source *corev1.VolumeProjection) {
		if take(&source.ClusterTrustBundle, drop) {
			used = true
		}
	})
	return used
}

func podCertificates(spec *corev1.PodSpec, drop bool) (used bool) {
	eachProjection(spec, func(source *corev1.VolumeProjection) {
		if take(&source.PodCertificate, drop) {
			used = true
		}
	})
	return used
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

// eachOwner finds where volumes say whose their files are.
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
