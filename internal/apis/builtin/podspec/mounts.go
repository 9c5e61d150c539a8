package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// volumeIndex finds those volumes of a pod that are valid, by name.
type volumeIndex struct {
	volumes []corev1.Volume
	faulty  map[int]bool   // nil if all volumes are valid
	at      map[string]int // nil for up to fewVolumes volumes, because a linear search is then faster
}

// fewVolumes is the maximum number of volumes for which a linear search is used.
const fewVolumes = 16

func indexVolumes(volumes []corev1.Volume, faulty map[int]bool) volumeIndex {
	index := volumeIndex{volumes: volumes, faulty: faulty}
	if len(volumes) > fewVolumes {
		index.at = make(map[string]int, len(volumes))
		for i := range volumes {
			if !faulty[i] {
				index.at[volumes[i].Name] = i
			}
		}
	}
	return index
}

// find returns the volume with the given name, or nil if there is no valid volume with this name.
func (x *volumeIndex) find(name string) *corev1.Volume {
	if x.at != nil {
		if i, ok := x.at[name]; ok {
			return &x.volumes[i]
		}
		return nil
	}
	for i := range x.volumes {
		if x.volumes[i].Name == name && !x.faulty[i] {
			return &x.volumes[i]
		}
	}
	return nil
}

// validateMounts requires that each path in a container is used by at most one mount or device. As in
// kube-apiserver, errors in some fields are reported for the list.
func (c *container) validateMounts(f validation.Field) {
	paths := validation.NewDuplicates[string](len(c.VolumeMounts))
	devices := c.devicePlaces()
	for i := range c.VolumeMounts {
		m, at := &c.VolumeMounts[i], f.Index(i)
		if m.Name == "" {
			at.Child("name").Required("")
		}
		if c.pod.volumes.find(m.Name) == nil {
			at.Child("name").NotFound(m.Name)
		}
		if m.MountPath == "" {
			at.Child("mountPath").Required("")
		}
		if paths.IsDuplicate(m.MountPath) {
			at.Child("mountPath").Invalid(m.MountPath, "must be unique")
		}
		if devices.names.Has(m.Name) {
			at.Child("name").Invalid(m.Name, "must not already exist in volumeDevices")
		}
		if devices.paths.Has(m.MountPath) {
			at.Child("mountPath").Invalid(m.MountPath, "must not already exist as a path in volumeDevices")
		}
		c.validateMount(f, m)
		c.validateMountOptions(at.Child("bindMountOptions"), m)
	}
}

func (c *container) validateMountOptions(f validation.Field, m *corev1.VolumeMount) {
	if len(m.BindMountOptions) == 0 {
		return
	}
	if volume := c.pod.volumes.find(m.Name); volume != nil && volume.Image != nil {
		f.Forbidden("may not be set for image volumes")
	}
	options := validation.NewDuplicates[string](len(m.BindMountOptions))
	for i, option := range m.BindMountOptions {
		validation.OneOf(f.Index(i), corev1.BindMountOption(option),
			corev1.BindMountOptionNoDev, corev1.BindMountOptionNoExec, corev1.BindMountOptionNoSUID)
		if options.IsDuplicate(option) {
			f.Index(i).Duplicate(option)
		}
	}
}

func (c *container) validateMount(f validation.Field, m *corev1.VolumeMount) {
	if m.SubPath != "" {
		validateDescending(f.Child("subPath"), m.SubPath)
	}
	if m.SubPathExpr != "" {
		if m.SubPath != "" {
			f.Child("subPathExpr").Invalid(m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
		}
		validateDescending(f.Child("subPathExpr"), m.SubPathExpr)
	}
	if propagation := m.MountPropagation; propagation != nil {
		at := f.Child("mountPropagation")
		validation.OneOf(at, *propagation, corev1.MountPropagationBidirectional,
			corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)
		privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
		if *propagation == corev1.MountPropagationBidirectional && !privileged {
			at.Forbidden("Bidirectional mount propagation is available only to privileged containers")
		}
	}
	if mode := m.RecursiveReadOnly; mode != nil {
		validateRecursiveReadOnly(f.Child("recursiveReadOnly"), *mode, m)
	}
}

func validateRecursiveReadOnly(f validation.Field, mode corev1.RecursiveReadOnlyMode, m *corev1.VolumeMount) {
	switch mode {
	case corev1.RecursiveReadOnlyDisabled:
	case corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible:
		if !m.ReadOnly {
			f.Forbidden("may only be specified when readOnly is true")
		}
		if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
			f.Forbidden("may only be specified when mountPropagation is None or not specified")
		}
	default:
		validation.NotSupported(f, mode, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)
	}
}

// places contains the names and paths of a container's mounts or devices.
type places struct{ names, paths validation.Duplicates[string] }

func (c *container) devicePlaces() places {
	p := places{validation.NewDuplicates[string](len(c.VolumeDevices)), validation.NewDuplicates[string](len(c.VolumeDevices))}
	for i := range c.VolumeDevices {
		p.names.IsDuplicate(c.VolumeDevices[i].Name)
		p.paths.IsDuplicate(c.VolumeDevices[i].DevicePath)
	}
	return p
}

func (c *container) mountPlaces() places {
	p := places{validation.NewDuplicates[string](len(c.VolumeMounts)), validation.NewDuplicates[string](len(c.VolumeMounts))}
	for i := range c.VolumeMounts {
		p.names.IsDuplicate(c.VolumeMounts[i].Name)
		p.paths.IsDuplicate(c.VolumeMounts[i].MountPath)
	}
	return p
}

func (c *container) validateDevices(f validation.Field) {
	if len(c.VolumeDevices) == 0 {
		return
	}
	seen, mounts := places{}, c.mountPlaces()
	for i := range c.VolumeDevices {
		d, at := &c.VolumeDevices[i], f.Index(i)
		name, path := at.Child("name"), at.Child("devicePath")
		if d.Name == "" {
			name.Required("")
		}
		if volume := c.pod.volumes.find(d.Name); volume == nil {
			name.NotFound(d.Name)
		} else if volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil {
			name.Invalid(d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		if d.DevicePath == "" {
			path.Required("")
		} else if hasBacksteps(d.DevicePath) {
			path.Invalid(d.DevicePath, "can not contain backsteps ('..')")
		}
		if seen.names.IsDuplicate(d.Name) {
			name.Invalid(d.Name, "must be unique")
		}
		if seen.paths.IsDuplicate(d.DevicePath) {
			path.Invalid(d.DevicePath, "must be unique")
		}
		if mounts.names.Has(d.Name) {
			name.Invalid(d.Name, "must not already exist in volumeMounts")
		}
		if mounts.paths.Has(d.DevicePath) {
			path.Invalid(d.DevicePath, "must not already exist as a path in volumeMounts")
		}
	}
}
