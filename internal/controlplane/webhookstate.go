package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission/webhooks"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
)

// AdmissionPath is the path that serves the AdmissionState. kube-apiserver does not have it.
const AdmissionPath = "/debug/admission"

// AdmissionState is the state of the admission of a control plane.
type AdmissionState struct {
	metav1.TypeMeta `json:",inline"`
	// Plugins contains the plugins in the order of execution. Webhooks contains the webhooks in the
	// order in which they are called.
	Plugins  []AdmissionPlugin `json:"plugins"`
	Webhooks []webhooks.State  `json:"webhooks"`
}

// newAdmissionHandler serves the state of admission as JSON.
func newAdmissionHandler(s *settings, w *admissionWebhooks) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		state := AdmissionState{
			TypeMeta: metav1.TypeMeta{APIVersion: "mainstay.dev/v1", Kind: "AdmissionState"},
			Plugins:  s.options.ListAdmission(), Webhooks: w.states(),
		}
		body, err := json.Marshal(state)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write(body) // an error means that the client has disconnected
	})
}

// reportTimeout is the timeout for writing an event.
const reportTimeout = 10 * time.Second

// webhookReporter writes events about webhooks that are called less often because they fail.
type webhookReporter struct {
	settings *settings
	access   *loopback.Access
	builtin  *builtinResources
	loops    *loops
}

func newWebhookReporter(s *settings, access *loopback.Access, builtin *builtinResources, loops *loops) *webhookReporter {
	return &webhookReporter{settings: s, access: access, builtin: builtin, loops: loops}
}

// report writes an event about the new state of a webhook in the background.
func (r *webhookReporter) report(state webhooks.State) {
	if r.settings.lifetime.Err() != nil {
		return
	}
	r.loops.run(func() {
		ctx, cancel := context.WithTimeout(r.settings.lifetime, reportTimeout)
		defer cancel()
		if err := r.write(ctx, state); err != nil {
			r.settings.env.Telemetry.Logger.Warn("an event about a webhook is lost", "webhook", state.Webhook, "configuration", state.Configuration, "err", err)
		}
	})
}

func (r *webhookReporter) write(ctx context.Context, state webhooks.State) error {
	uid, err := r.uidOfConfiguration(ctx, state)
	if apierrors.IsNotFound(err) {
		return nil // the configuration is from a file, or was deleted
	}
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	// The event is written without admission, because admission might call the failing webhook.
	events := r.builtin.static.Find(corev1.SchemeGroupVersion, "events", "").Storage.(rest.Creater)
	_, err = events.Create(ctx, webhookEvent(state, uid, metav1.NewTime(r.settings.env.Simulation.Now())), nil, metav1.CreateOptions{})
	return err
}

func (r *webhookReporter) uidOfConfiguration(ctx context.Context, state webhooks.State) (types.UID, error) {
	if state.Kind == "MutatingWebhookConfiguration" {
		return uidOf[*admissionregistrationv1.MutatingWebhookConfiguration](ctx, r.access, mutatingWebhooks, state.Configuration)
	}
	return uidOf[*admissionregistrationv1.ValidatingWebhookConfiguration](ctx, r.access, validatingWebhooks, state.Configuration)
}

func uidOf[T codec.Object](ctx context.Context, access *loopback.Access, resource schema.GroupVersionResource, name string) (types.UID, error) {
	obj, err := loopback.For[T](access, resource).Get(ctx, types.NamespacedName{Name: name})
	if err != nil {
		return "", err
	}
	return obj.GetUID(), nil
}

// maxEventMessage is the maximum size of an event message, in bytes.
const maxEventMessage = 1024

// webhookEvent returns the event about the new state of a webhook. Its object is the configuration
// of the webhook.
func webhookEvent(s webhooks.State, uid types.UID, now metav1.Time) *corev1.Event {
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "admission-webhook." + uuid.NewString()},
		InvolvedObject: corev1.ObjectReference{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: s.Kind, Name: s.Configuration, UID: uid},
		Source:         corev1.EventSource{Component: "mainstay"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Type: corev1.EventTypeNormal, Reason: "WebhookAnswers", Message: fmt.Sprintf("webhook %s answers again", s.Webhook),
	}
	if s.CircuitOpen {
		event.Type, event.Reason = corev1.EventTypeWarning, "WebhookSpared"
		message := fmt.Sprintf("webhook %s has failed %d times in a row and is called less often until it responds: %s", s.Webhook, s.Failures, s.LastFailure)
		event.Message = strings.ToValidUTF8(message[:min(len(message), maxEventMessage)], "")
	}
	return event
}
