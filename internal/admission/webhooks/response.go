package webhooks

import (
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/egress/webhook"
)

// callError reports a failed call or an invalid response. The failure policy of the webhook determines whether
// it rejects the request.
type callError struct {
	webhook string
	reason  error
	code    int // the value of a metric label
}

func (e *callError) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", e.webhook, e.reason)
}
func (e *callError) Unwrap() error { return e.reason }

// denial is the rejection of a request by a webhook.
type denial struct{ *apierrors.StatusError }

// readResponse decodes and validates the response to a review. mutating specifies whether the response may
// contain a patch. The error messages are the same as in kube-apiserver.
func (q *reviewCall) readResponse(body []byte, mutating bool) (*admissionv1.AdmissionResponse, *callError) {
	document, gvk, err := webhook.Review(body, q.gvk.GroupKind())
	var review admissionv1.AdmissionReview // v1beta1 has the same fields
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(document, &review)
	}
	if err != nil {
		return nil, &callError{q.spec.Name, fmt.Errorf("failed to call webhook: %w", err), http.StatusServiceUnavailable}
	}
	response := review.Response
	switch {
	case response == nil:
		err = errors.New("webhook response was absent")
	case q.gvk.Version == v1beta1: // kube-apiserver does not validate v1beta1 responses
		convertV1beta1(response, mutating)
	case response.UID != q.uid:
		err = fmt.Errorf("expected response.uid=%q, got %q", q.uid, truncate(string(response.UID), 100))
	case gvk != q.gvk:
		err = fmt.Errorf("expected webhook response of %v, got %v", q.gvk, gvk)
	case mutating:
		err = checkPatch(response)
	case len(response.Patch) > 0:
		err = errors.New("validating webhook may not return response.patch")
	case response.PatchType != nil:
		err = errors.New("validating webhook may not return response.patchType")
	}
	if err != nil {
		return nil, &callError{q.spec.Name, fmt.Errorf("received invalid webhook response: %w", err), http.StatusServiceUnavailable}
	}
	return response, nil
}

// convertV1beta1 converts a v1beta1 response to v1. v1beta1 responses are not validated.
func convertV1beta1(response *admissionv1.AdmissionResponse, mutating bool) {
	response.PatchType = nil
	if !mutating {
		response.Patch = nil
	}
	if len(response.Patch) > 0 {
		patchType := admissionv1.PatchTypeJSONPatch
		response.PatchType = &patchType
	}
}

func checkPatch(response *admissionv1.AdmissionResponse) error {
	switch {
	case len(response.Patch) > 0 && response.PatchType == nil:
		return errors.New("webhook returned response.patch but not response.patchType")
	case len(response.Patch) == 0 && response.PatchType != nil:
		return errors.New("webhook returned response.patchType but not response.patch")
	case response.PatchType != nil && *response.PatchType == "":
		return fmt.Errorf("webhook returned invalid response.patchType of %q", *response.PatchType)
	}
	return nil
}

// Limits on the text that a webhook can send to clients: the size of the message, in bytes, and the number of
// causes.
const (
	maxMessage = 32 << 10
	maxCauses  = 1000
)

// newDenial returns the rejection that is sent to the client. It is the Status in the response, with the name
// of the webhook added to the message. A cause that names the webhook is also added, except if the reason is
// Invalid, because clients print the causes of such errors as fields.
func newDenial(h *configuredWebhook, mutates bool, result *metav1.Status) denial {
	var status metav1.Status
	if result != nil {
		status = *result
	}
	status.Code = max(status.Code, http.StatusBadRequest)
	if status.Status == "" || status.Status == metav1.StatusSuccess {
		status.Status = metav1.StatusFailure
	}
	by := fmt.Sprintf("admission webhook %q denied the request", h.spec.Name)
	switch {
	case status.Message != "":
		status.Message = by + ": " + truncate(status.Message, maxMessage)
	case status.Reason != "":
		status.Message = by + ": " + truncate(string(status.Reason), maxMessage)
	default:
		status.Message = by + " without explanation"
	}
	details := &metav1.StatusDetails{}
	if status.Details != nil {
		details = status.Details.DeepCopy()
		details.Causes = details.Causes[:min(len(details.Causes), maxCauses)]
	}
	if status.Reason != metav1.StatusReasonInvalid {
		details.Causes = append(details.Causes, metav1.StatusCause{Type: admission.CauseWebhook, Message: h.description(mutates)})
	}
	status.Details = details
	return denial{&apierrors.StatusError{ErrStatus: status}}
}

// truncate truncates the text of a webhook to at most limit bytes, at a rune boundary. It appends an ellipsis
// to truncated text.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + " ..."
}
