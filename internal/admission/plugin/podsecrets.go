package plugin

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// mountable lists the secrets that the pods of a service account may use.
type mountable struct {
	account        string
	secrets, pulls map[string]bool
}

func mountableSecrets(account *corev1.ServiceAccount) *mountable {
	m := &mountable{account: account.Name, secrets: map[string]bool{}, pulls: map[string]bool{}}
	for _, s := range account.Secrets {
		m.secrets[s.Name] = true
	}
	for _, s := range account.ImagePullSecrets {
		m.pulls[s.Name] = true
	}
	return m
}

// allow returns an error if a pod uses a secret that is not in m. As in kube-apiserver, projected volumes and
// CSI volumes are not checked.
func (m *mountable) allow(spec *corev1.PodSpec) error {
	for _, volume := range spec.Volumes {
		if volume.Secret != nil && !m.secrets[volume.Secret.SecretName] {
			return m.notAllowed("volume with", volume.Secret.SecretName)
		}
	}
	for i := range spec.InitContainers {
		if err := m.allowContainer("init container", &spec.InitContainers[i]); err != nil {
			return err
		}
	}
	for i := range spec.Containers {
		if err := m.allowContainer("container", &spec.Containers[i]); err != nil {
			return err
		}
	}
	for i, pull := range spec.ImagePullSecrets {
		if !m.pulls[pull.Name] {
			return fmt.Errorf(`imagePullSecrets[%d].name="%s" is not allowed because service account %s does not reference that imagePullSecret`, i, pull.Name, m.account)
		}
	}
	return nil
}

func (m *mountable) allowContainer(what string, c *corev1.Container) error {
	for _, env := range c.Env {
		if from := env.ValueFrom; from != nil && from.SecretKeyRef != nil && !m.secrets[from.SecretKeyRef.Name] {
			return m.notAllowed(fmt.Sprintf("%s %s with envVar %s referencing", what, c.Name, env.Name), from.SecretKeyRef.Name)
		}
	}
	for _, from := range c.EnvFrom {
		if from.SecretRef != nil && !m.secrets[from.SecretRef.Name] {
			return m.notAllowed(fmt.Sprintf("%s %s with envFrom referencing", what, c.Name), from.SecretRef.Name)
		}
	}
	return nil
}

func (m *mountable) notAllowed(what, secret string) error {
	return fmt.Errorf(`%s secret.secretName="%s" is not allowed because service account %s does not reference that secret`, what, secret, m.account)
}

// usesSecrets reports whether a pod references a secret.
func usesSecrets(spec *corev1.PodSpec) bool {
	for i := range spec.EphemeralContainers {
		if containerUsesSecrets((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)) {
			return true
		}
	}
	containerUses := func(c corev1.Container) bool { return containerUsesSecrets(&c) }
	return len(spec.ImagePullSecrets) > 0 || slices.ContainsFunc(spec.InitContainers, containerUses) ||
		slices.ContainsFunc(spec.Containers, containerUses) || slices.ContainsFunc(spec.Volumes, volumeUsesSecrets)
}

func containerUsesSecrets(c *corev1.Container) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil }) ||
		slices.ContainsFunc(c.EnvFrom, func(e corev1.EnvFromSource) bool { return e.SecretRef != nil })
}

func volumeUsesSecrets(v corev1.Volume) bool {
	s := v.VolumeSource
	switch {
	case s.AzureFile != nil:
		return s.AzureFile.SecretName != ""
	case s.CephFS != nil:
		return s.CephFS.SecretRef != nil
	case s.Cinder != nil:
		return s.Cinder.SecretRef != nil
	case s.FlexVolume != nil:
		return s.FlexVolume.SecretRef != nil
	case s.Projected != nil:
		return slices.ContainsFunc(s.Projected.Sources, func(p corev1.VolumeProjection) bool { return p.Secret != nil })
	case s.RBD != nil:
		return s.RBD.SecretRef != nil
	case s.Secret != nil:
		return true
	case s.ScaleIO != nil:
		return s.ScaleIO.SecretRef != nil
	case s.ISCSI != nil:
		return s.ISCSI.SecretRef != nil
	case s.StorageOS != nil:
		return s.StorageOS.SecretRef != nil
	case s.CSI != nil:
		return s.CSI.NodePublishSecretRef != nil
	}
	return false
}
