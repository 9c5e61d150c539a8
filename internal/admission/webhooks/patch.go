package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/jsonpatch"
	"mainstay.dev/mainstay/internal/request"
)

// callAndPatch calls a webhook and applies its patch. It reports whether the object changed.
func (p *Mutating) callAndPatch(ctx context.Context, a *admission.Attributes, q *reviewCall, suffix string) (bool, error) {
	response, err := p.callWebhook(ctx, a, q)
	if err != nil || len(response.Patch) == 0 {
		return false, err
	}
	patch, err := jsonpatch.Parse(response.Patch)
	switch {
	case err != nil:
		return false, &callError{q.spec.Name, fmt.Errorf("received undecodable patch in webhook response: %w", err), http.StatusServiceUnavailable}
	case patch.Len() == 0:
		return false, nil
	case q.object == nil:
		return false, apierrors.NewInternalError(fmt.Errorf("admission webhook %q attempted to modify the object, which is not supported for this operation", q.spec.Name))
	case *response.PatchType != admissionv1.PatchTypeJSONPatch:
		return false, &callError{q.spec.Name, fmt.Errorf("unsupported patch type %q", truncate(string(*response.PatchType), 100)), http.StatusBadRequest}
	}
	patched, err := q.applyPatch(patch)
	if err != nil {
		return false, patchError(q, err)
	}
	changed := !equality.Semantic.DeepEqual(q.object, patched)
	if request.AuditFrom(ctx).RecordsRequestBody() { // the audit annotation contains the patch
		p.annotateJSON(ctx, a, patchAnnotation+suffix, mutationRecord{q.configuration, q.spec.Name, nil, response.Patch, string(admissionv1.PatchTypeJSONPatch)})
	}
	if !changed {
		return false, nil
	}
	if object, ok := patched.(codec.Object); ok {
		if err := a.SetObjectIn(ctx, q.resource.Version.GVK, object); err != nil {
			return false, patchError(q, err)
		}
	} else {
		a.Object = patched // the options of a connection
	}
	return true, nil
}

// applyPatch applies a patch to a copy of the reviewed object and returns the copy.
func (q *reviewCall) applyPatch(patch *jsonpatch.Patch) (runtime.Object, error) {
	document, err := codec.AppendObject(nil, q.object, codec.JSON)
	if err != nil {
		return nil, err
	}
	document, err = patch.Apply(make([]byte, 0, len(document)+256), document)
	if err != nil {
		return nil, err
	}
	if _, ok := q.object.(codec.Object); !ok {
		options := reflect.New(reflect.TypeOf(q.object).Elem()).Interface().(runtime.Object)
		return options, kjson.UnmarshalCaseSensitivePreserveInts(document, options)
	}
	patched, err := q.resource.Version.Decode(document, codec.JSON, false)
	if err != nil {
		var undecodable *codec.UndecodableError
		if errors.As(err, &undecodable) {
			err = undecodable.Unwrap()
		}
		return nil, err
	}
	patched.GetObjectKind().SetGroupVersionKind(q.resource.Version.GVK)
	return patched, nil
}

// patchError returns the error for a patch that cannot be applied or whose result cannot be decoded. Its
// message is the same as in kube-apiserver; it also has a cause that names the webhook.
func patchError(q *reviewCall, err error) error {
	failed := apierrors.NewInternalError(err)
	failed.ErrStatus.Details.Causes = append(failed.ErrStatus.Details.Causes, metav1.StatusCause{Field: "admission", Message: "patched by " + q.description(true)})
	return failed
}

// description returns the name and the configuration of the webhook for use in causes and warnings.
func (h *configuredWebhook) description(mutates bool) string {
	kind := "ValidatingWebhookConfiguration"
	if mutates {
		kind = "MutatingWebhookConfiguration"
	}
	return fmt.Sprintf("webhook %q of %s %q", h.spec.Name, kind, h.configuration)
}
