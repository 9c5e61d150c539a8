package storage

import (
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// prepareDriverUpdate increments the generation if the spec changed. Unlike objects of other kinds, a new
// driver has generation 0.
func prepareDriverUpdate(_ *builtin.Operation, driver, old *storagev1.CSIDriver) {
	if validation.Changed(driver.Spec, old.Spec) {
		driver.Generation = old.Generation + 1
	}
}

func driverWarnings(_ *builtin.Operation, driver, old *storagev1.CSIDriver) []string {
	if old == nil && len(driver.Spec.TokenRequests) > 0 && driver.Spec.ServiceAccountTokenInSecrets == nil {
		return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, " +
			"set to true to prevent possible logging of tokens in volume attributes"}
	}
	return nil
}

func driverColumns() *builtin.Columns[*storagev1.CSIDriver] {
	spec := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return &builtin.Columns[*storagev1.CSIDriver]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("AttachRequired", "boolean", spec["attachRequired"]),
			builtin.Column("PodInfoOnMount", "boolean", spec["podInfoOnMount"]),
			builtin.Column("StorageCapacity", "boolean", spec["storageCapacity"]),
			builtin.Column("TokenRequests", "string", spec["tokenRequests"]),
			builtin.Column("RequiresRepublish", "boolean", spec["requiresRepublish"]),
			builtin.Column("Modes", "string", spec["volumeLifecycleModes"]),
			builtin.AgeColumn(),
		},
		Cells: func(driver *storagev1.CSIDriver, now time.Time) []any {
			s := &driver.Spec
			var modes []string
			for _, mode := range s.VolumeLifecycleModes {
				modes = append(modes, string(mode))
			}
			return []any{
				driver.Name, or(s.AttachRequired, true), or(s.PodInfoOnMount, false), or(s.StorageCapacity, false),
				audiencesText(s.TokenRequests), or(s.RequiresRepublish, false), builtin.OrNone(strings.Join(modes, ",")),
				builtin.Age(driver.CreationTimestamp, now),
			}
		},
	}
}

func audiencesText(requests []storagev1.TokenRequest) string {
	if requests == nil {
		return builtin.Unset
	}
	var audiences []string
	for i := range requests {
		audiences = append(audiences, requests[i].Audience)
	}
	return strings.Join(audiences, ",")
}

// or returns *p, or the value of otherwise if p is nil.
func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// storageHealth visits the storage health in the status of nodes.
func storageHealth(u *builtin.FieldVisitor, node *storagev1.CSINode) {
	builtin.VisitField(u, &node.Status.StorageHealth)
}

// volumeLimits visits the field that prevents scheduling of pods to nodes without the driver.
func volumeLimits(u *builtin.FieldVisitor, driver *storagev1.CSIDriver) {
	builtin.VisitField(u, &driver.Spec.PreventPodSchedulingIfMissing)
}

func defaultVolumeLimits(driver *storagev1.CSIDriver) {
	builtin.SetDefault(&driver.Spec.PreventPodSchedulingIfMissing, false)
}

func nodeColumns() *builtin.Columns[*storagev1.CSINode] {
	return &builtin.Columns[*storagev1.CSINode]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Drivers", "integer", "Drivers indicates the number of CSI drivers registered on the node"),
			builtin.AgeColumn(),
		},
		Cells: func(node *storagev1.CSINode, now time.Time) []any {
			return []any{node.Name, int64(len(node.Spec.Drivers)), builtin.Age(node.CreationTimestamp, now)}
		},
	}
}

func attachmentColumns() *builtin.Columns[*storagev1.VolumeAttachment] {
	spec := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	attacher := builtin.Column("Attacher", "string", spec["attacher"])
	attacher.Format = "name"
	return &builtin.Columns[*storagev1.VolumeAttachment]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			attacher,
			builtin.Column("PV", "string", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
			builtin.Column("Node", "string", spec["nodeName"]),
			builtin.Column("Attached", "boolean", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"]),
			builtin.AgeColumn(),
		},
		Cells: func(a *storagev1.VolumeAttachment, now time.Time) []any {
			return []any{
				a.Name, a.Spec.Attacher, or(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached,
				builtin.Age(a.CreationTimestamp, now),
			}
		},
	}
}
