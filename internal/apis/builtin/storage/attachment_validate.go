package storage

import (
	"math"

	storagev1 "k8s.io/api/storage/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// Limits on fields that drivers write, in bytes.
const (
	maxMetadataSize     = 256 << 10
	maxErrorMessageSize = 1024
)

func validateAttachment(f validation.Field, attachment, old *storagev1.VolumeAttachment) {
	f, spec := f.Child("spec"), &attachment.Spec
	// Stored attachments may name attachers that are not CSI drivers, which versions before v1
	// accepted.
	if old == nil || spec.Attacher != old.Spec.Attacher {
		podspec.ValidateCSIDriverName(f.Child("attacher"), spec.Attacher)
	}
	if old != nil {
		validation.Immutable(f, *spec, old.Spec)
	}
	f.Child("nodeName").DNSSubdomain(spec.NodeName)
	validateSource(f.Child("source"), &spec.Source, old == nil)
}

func validateSource(f validation.Field, source *storagev1.VolumeAttachmentSource, creation bool) {
	const exactlyOne = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	name, inline := source.PersistentVolumeName, source.InlineVolumeSpec
	switch {
	case name == nil && inline == nil:
		f.Required(exactlyOne)
	case name != nil && inline != nil:
		f.Forbidden(exactlyOne)
	case name != nil && *name == "":
		f.Child("persistentVolumeName").Required("must specify non empty persistentVolumeName")
	case inline != nil:
		podspec.ValidateInlineVolumeSpec(f.Child("inlineVolumeSpec"), inline)
	}
	if creation && name != nil {
		f.Child("persistentVolumeName").DNSSubdomain(*name)
	}
}

func validateAttachmentStatus(f validation.Field, attachment, _ *storagev1.VolumeAttachment) {
	f, status := f.Child("status"), &attachment.Status
	size := 0
	for key, value := range status.AttachmentMetadata {
		size += len(key) + len(value)
	}
	if size > maxMetadataSize {
		f.Child("attachmentMetadata").TooLong(maxMetadataSize)
	}
	validateVolumeError(f.Child("attachError"), status.AttachError)
	validateVolumeError(f.Child("detachError"), status.DetachError)
}

func validateVolumeError(f validation.Field, failure *storagev1.VolumeError) {
	if failure == nil {
		return
	}
	if len(failure.Message) > maxErrorMessageSize {
		f.Child("message").TooLong(maxMetadataSize) // as in kube-apiserver, the error contains the limit of the metadata
	}
	if code := failure.ErrorCode; code != nil {
		f.Child("errorCode").Between(int64(*code), 0, math.MaxInt32)
	}
}
