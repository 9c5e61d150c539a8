package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/authorizer"
)

// restrictAudience rejects a token request for a pod unless the node has permission for the audience, or the
// audience is named by the pod or by the CSI driver of one of its volumes.
func (p NodeRestriction) restrictAudience(ctx context.Context, a *admission.Attributes, audiences []string, pod *corev1.Pod) error {
	if p.AnyAudience {
		return nil
	}
	audience := ""
	switch len(audiences) {
	case 0:
	case 1:
		audience = audiences[0]
	default:
		return reject(a, errors.New("node may only request 0 or 1 audiences"))
	}
	named, err := p.namesAudience(ctx, pod, audience)
	switch {
	case err != nil:
		return reject(a, fmt.Errorf("error validating audience %q: %w", audience, err))
	case named:
		return nil
	}
	decision, _, err := p.Authorizer.Authorize(ctx, &authorizer.Attributes{
		User: a.User, Verb: "request-serviceaccounts-token-audience", ResourceRequest: true,
		Namespace: a.Namespace, APIVersion: "v1", Resource: audience, Name: a.Name,
	})
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return reject(a, fmt.Errorf("audience %q not found in pod spec volume, error authorizing %s to request tokens for this audience: %w", audience, a.User.Name, err))
	}
	return reject(a, fmt.Errorf("audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", audience, a.User.Name))
}

// namesAudience reports whether the pod, or the CSI driver of one of its volumes, names an audience. If the
// result is false, the error contains the errors of all failed reads.
func (p NodeRestriction) namesAudience(ctx context.Context, pod *corev1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience
		}) {
			return true, nil
		}
		named, err := p.driverNamesAudience(ctx, pod, v, audience)
		if named {
			return true, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return false, utilerrors.NewAggregate(errs)
}

func (p NodeRestriction) driverNamesAudience(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, audience string) (bool, error) {
	name, err := p.driverOf(ctx, pod, v)
	if err != nil || name == "" {
		return false, err
	}
	driver, err := p.Drivers.Get(ctx, types.NamespacedName{Name: name})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(driver.Spec.TokenRequests, func(r storagev1.TokenRequest) bool { return r.Audience == audience }), nil
}

// driverOf returns the CSI driver of a pod's volume, or "" if the volume does not use a CSI driver.
func (p NodeRestriction) driverOf(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	name := podspec.ClaimName(pod.Name, v)
	if name == "" {
		if v.CSI != nil {
			return v.CSI.Driver, nil
		}
		return migratedInline(&v.VolumeSource), nil
	}
	claim, err := p.Claims.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name})
	if err != nil {
		return "", err
	}
	volume, err := p.Volumes.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName})
	if err != nil {
		return "", err
	}
	if volume.Spec.CSI != nil {
		return volume.Spec.CSI.Driver, nil
	}
	return migrated(&volume.Spec.PersistentVolumeSource), nil
}

func migratedInline(v *corev1.VolumeSource) string {
	return migratedTo(v.AWSElasticBlockStore != nil, v.GCEPersistentDisk != nil, v.AzureDisk != nil, v.AzureFile != nil, v.VsphereVolume != nil, v.PortworxVolume != nil, v.Cinder != nil)
}

func migrated(v *corev1.PersistentVolumeSource) string {
	return migratedTo(v.AWSElasticBlockStore != nil, v.GCEPersistentDisk != nil, v.AzureDisk != nil, v.AzureFile != nil, v.VsphereVolume != nil, v.PortworxVolume != nil, v.Cinder != nil)
}

// migratedTo returns the CSI driver that replaces a built-in volume type, or "" for other types.
func migratedTo(aws, gce, azureDisk, azureFile, vSphere, portworx, cinder bool) string {
	switch {
	case aws:
		return "ebs.csi.aws.com"
	case gce:
		return "pd.csi.storage.gke.io"
	case azureDisk:
		return "disk.csi.azure.com"
	case azureFile:
		return "file.csi.azure.com"
	case vSphere:
		return "csi.vsphere.vmware.com"
	case portworx:
		return "pxd.portworx.com"
	case cinder:
		return "cinder.csi.openstack.org"
	}
	return ""
}
