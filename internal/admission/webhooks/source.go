package webhooks

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/egress/webhook"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Conditions are the match conditions of a webhook. They are safe for concurrent use.
type Conditions interface {
	// Match reports whether all conditions are true for a request, converted to the given resource.
	// It returns the error of the evaluation.
	Match(ctx context.Context, s *match.Subject, matched *rest.Resource) (bool, error)
}

// Config configures the plugins. All fields except Metrics and Report are required.
type Config struct {
	Clients    *webhook.Clients
	Namespaces match.Namespaces
	// Compile returns the match conditions of a webhook. If ignore is true, a condition whose evaluation fails
	// counts as false; otherwise the request fails.
	Compile func(conditions []admissionregistrationv1.MatchCondition, ignore bool) Conditions
	// InterceptReviews makes webhooks apply to authentication and authorization reviews.
	InterceptReviews bool
	Metrics          *Metrics // nil disables metrics
	// Report is called when the circuit of a webhook opens or closes. For each webhook, failures are reported
	// at most once per minute. Report must not block. nil disables reports.
	Report func(State)
	Logger *slog.Logger
}

// indexedWebhook is a webhook and its position in the calling order.
type indexedWebhook struct {
	*configuredWebhook
	index int
}

// source contains the webhooks of all configurations of a kind, in calling order: first the configurations from
// files, then the API objects, each sorted by name.
type source struct {
	config *Config

	mu sync.Mutex
	// stored contains the webhooks of API objects, and static contains the webhooks from files. The keys are
	// the names of the configurations.
	stored, static map[string][]*configuredWebhook
	// index contains all webhooks. staticIndex contains only the webhooks from files, which are the only ones
	// that apply to admission configuration.
	index, staticIndex atomic.Pointer[match.Index[indexedWebhook]]
}

func newSource(config *Config) *source {
	s := &source{config: config, stored: map[string][]*configuredWebhook{}, static: map[string][]*configuredWebhook{}}
	s.rebuildIndexes()
	return s
}

// set replaces the webhooks of a stored configuration. The caller must then call rebuildIndexes.
func (s *source) set(configuration string, specs []admissionregistrationv1.MutatingWebhook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[configuration] = s.config.updateWebhooks(configuration, specs, s.stored[configuration])
}

// setStatic replaces the configurations from files and rebuilds the indexes.
func (s *source) setStatic(configurations map[string][]admissionregistrationv1.MutatingWebhook) {
	s.mu.Lock()
	static := make(map[string][]*configuredWebhook, len(configurations))
	for name, specs := range configurations {
		static[name] = s.config.updateWebhooks(name, specs, s.static[name])
	}
	for name, hooks := range s.static {
		if _, kept := configurations[name]; !kept {
			s.closeAll(hooks)
		}
	}
	s.static = static
	s.mu.Unlock()
	s.rebuildIndexes()
}

func (s *source) closeAll(hooks []*configuredWebhook) {
	for _, h := range hooks {
		h.close()
		s.config.Metrics.deleteSeries(h)
	}
}

// remove removes a stored configuration. The caller must then call rebuildIndexes.
func (s *source) remove(configuration string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeAll(s.stored[configuration])
	delete(s.stored, configuration)
}

func (s *source) rebuildIndexes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	static := indexWebhooks(0, s.static)
	all := indexWebhooks(len(static), s.stored)
	s.staticIndex.Store(match.NewIndex(withRules(static)))
	s.index.Store(match.NewIndex(withRules(append(static[:len(static):len(static)], all...))))
}

// indexWebhooks returns the webhooks of all configurations in calling order. Their indexes start at i.
func indexWebhooks(i int, configurations map[string][]*configuredWebhook) []indexedWebhook {
	var all []indexedWebhook
	for _, name := range slices.Sorted(maps.Keys(configurations)) {
		for _, h := range configurations[name] {
			all = append(all, indexedWebhook{h, i})
			i++
		}
	}
	return all
}

// withRules returns only the webhooks that have rules, because a match.Matcher without rules would match all
// requests.
func withRules(all []indexedWebhook) []indexedWebhook {
	return slices.DeleteFunc(slices.Clone(all), func(h indexedWebhook) bool { return len(h.spec.Rules) == 0 })
}

// configurationObjects returns a reflector consumer that updates the source.
func configurationObjects[T codec.Object](s *source, name string, webhooks func(T) []admissionregistrationv1.MutatingWebhook) *reflector.Objects[T] {
	return reflector.NewObjects(reflector.ObjectsConfig[T]{
		Name: name, Logger: s.config.Logger, Done: s.rebuildIndexes,
		Set:    func(c T) { s.set(c.GetName(), webhooks(c)) },
		Remove: func(name types.NamespacedName) { s.remove(name.Name) },
	})
}

// asMutating converts validating webhooks to the type of mutating webhooks. The new webhooks share memory with
// the old ones.
func asMutating(webhooks []admissionregistrationv1.ValidatingWebhook) []admissionregistrationv1.MutatingWebhook {
	out := make([]admissionregistrationv1.MutatingWebhook, len(webhooks))
	for i, w := range webhooks {
		out[i] = admissionregistrationv1.MutatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		}
	}
	return out
}
