package endpoints

import (
	"errors"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// patch handles PATCH requests for an object. Three types of patches modify the current object. The fourth
// (apply) declares the fields that a manager sets.
func (c *call) patch(s rest.Updater) error {
	patchType, err := c.patchType()
	if err != nil {
		return err
	}
	t, err := c.negotiate(forObject)
	if err != nil {
		return err
	}
	options, err := c.patchOptions(patchType)
	if err != nil {
		return err
	}
	body, err := c.readBody()
	if err != nil {
		return err
	}
	isApply := patchType == types.ApplyYAMLPatchType
	media := codec.JSON
	if isApply {
		media = codec.YAML
	}
	if err := c.charged(c.resource.Version).ChargeDocument(body); err != nil {
		return err
	}
	change, err := c.patcher(patchType, body, *options)
	if err != nil {
		return err
	}
	c.auditRequest(nil, media, body)
	updating := &metav1.UpdateOptions{
		TypeMeta: optionsType("UpdateOptions"), // kube-apiserver also passes UpdateOptions to admission
		DryRun:   options.DryRun, FieldManager: options.FieldManager, FieldValidation: options.FieldValidation,
	}
	rules := c.updateRules(c.r.Context(), updating, isApply && c.resource.Subresource == "")
	record, created, err := c.operation.update(c.r.Context(), s, c.withUniqueOwners(c.withAdmission(c.rejectRename(change), updating)), rules)
	if err != nil {
		return err
	}
	return c.respondRecord(t, statusCode(created), record)
}

// patchType returns the type of the patch, from the Content-Type header. The error is a 415.
func (c *call) patchType() (types.PatchType, error) {
	mediaType, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err == nil {
		switch patchType := types.PatchType(mediaType); patchType {
		case types.JSONPatchType, types.MergePatchType, types.ApplyYAMLPatchType:
			return patchType, nil
		case types.StrategicMergePatchType:
			if !c.resource.Version.Untyped && !c.resource.Custom {
				return patchType, nil
			}
		}
	}
	if c.resource.Version.Untyped || c.resource.Custom {
		return "", unsupportedMediaType("the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
	}
	return "", errPatchType()
}

// patcher returns the UpdateFunc that applies a patch.
func (c *call) patcher(patchType types.PatchType, body []byte, options metav1.PatchOptions) (rest.UpdateFunc, error) {
	manager := c.fieldManager(options.FieldManager)
	switch patchType {
	case types.ApplyYAMLPatchType:
		return c.applyPatch(body, manager, options)
	case types.JSONPatchType:
		patch, err := parseJSONPatch(body, options.FieldValidation)
		if err != nil {
			return nil, err
		}
		return c.documentPatch(patch, manager, options), nil
	case types.MergePatchType:
		patch, err := parseMergePatch(body, options.FieldValidation)
		if err != nil {
			return nil, err
		}
		return c.documentPatch(patch, manager, options), nil
	}
	return c.strategicPatch(body, manager, options)
}

// invalidPatch returns the error for a patched document that is not a valid object of the kind.
func invalidPatch(document string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), document, err.Error()),
	})
}

// inapplicable returns the error for a patch that does not apply to the object or exceeds a limit. why is
// the reason; nil omits it. As in kube-apiserver, the error has no further details.
func inapplicable(why error) error {
	message := "the server rejected our request due to an error in our request"
	if why != nil {
		message += ": " + why.Error()
	}
	return detailed(statusError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "%s", message))
}

// asBadRequest converts an error that is not an API error into a bad request. Callers use it for errors
// that are caused by the client's data.
func asBadRequest(err error) error {
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) {
		return err
	}
	return apierrors.NewBadRequest(err.Error())
}

// errPatchType returns the error for an unsupported Content-Type.
func errPatchType() error {
	return detailed(statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "415: Unsupported Media Type"))
}
