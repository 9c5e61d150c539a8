package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

// Prepare and PrepareUpdate are the rules of a kind that makes pods of the
// specification that spec returns: fields of features that are off are dropped.
func Prepare[T any](spec func(*T) *corev1.PodSpec) func(*builtin.Operation, *T) {
	return func(_ *builtin.Operation, obj *T) { DropDisabled(spec(obj), nil) }
}

// PrepareUpdate is described with Prepare.
func PrepareUpdate[T any](spec func(*T) *corev1.PodSpec) func(*builtin.Operation, *T, *T) {
	return func(_ *builtin.Operation, obj, old *T) { DropDisabled(spec(obj), spec(old)) }
}

// DropDisabled drops the fields of features that are off, except for those
// that the old specification uses. There may be none: old is nil then. Without
// a specification it does nothing.
func DropDisabled(spec, old *corev1.PodSpec) {
	if spec == nil {
		return
	}
	for _, feature := range [...]func(*corev1.PodSpec, bool) bool{
		schedulingGroup, evictionResponders, stopSignals, httpProtocols, grpcModes, mountOptions, emptyDirModes, fileOwners,
	} {
		if old == nil || !feature(old, false) {
			feature(spec, true)
		}
	}
}

// take tells whether a field is set, and clears it on request.
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

// Each of the following tells whether a specification uses the feature that
// its comment names, and drops its fields on request.

// schedulingGroup: GenericWorkload.
func schedulingGroup(spec *corev1.PodSpec, drop bool) bool { return take(&spec.SchedulingGroup, drop) }

// evictionResponders: EvictionRequestAPI.
func evictionResponders(spec *corev1.PodSpec, drop bool) bool {
	return takeList(&spec.EvictionResponders, drop)
}

// stopSignals: ContainerStopSignals. A lifecycle that says nothing else goes
// with its signal.
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

// httpProtocols: H2CContainerProbe.
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

// grpcModes: GRPCContainerProbeTLS.
func grpcModes(spec *corev1.PodSpec, drop bool) (used bool) {
	eachProbe(spec, func(p *corev1.Probe) {
		if p.GRPC != nil && take(&p.GRPC.Mode, drop) {
			used = true
		}
	})
	return used
}

// mountOptions: VolumeBindMountOptions.
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

// emptyDirModes: EmptyDirVolumeMode.
func emptyDirModes(spec *corev1.PodSpec, drop bool) (used bool) {
	for i := range spec.Volumes {
		if s := spec.Volumes[i].EmptyDir; s != nil && take(&s.Mode, drop) {
			used = true
		}
	}
	return used
}

// fileOwners: AtomicWriteVolumeUserFields.
func fileOwners(spec *corev1.PodSpec, drop bool) (used bool) {
	eachOwner(spec, func(user **int64) {
		if take(user, drop) {
			used = true
		}
	})
	return used
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
