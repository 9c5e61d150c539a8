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

// Conditions are the match conditions of a webhook.
type Conditions interface {
	// Match reports whether the conditions select a request in the form of a resource. The error is
	// that of the evaluation.
	Match(ctx context.Context, s *match.Subject, shown *rest.Resource) (bool, error)
}

// Config configures the plugins. All fields except Metrics and Report are required.
type Config struct {
	Clients    *webhook.Clients
	Namespaces match.Namespaces
	// Compile makes the conditions of a webhook; with ignore, one that cannot be
	// evaluated is as if it were false.
	Compile func(conditions []admissionregistrationv1.MatchCondition, ignore bool) Conditions
	// Reviews: reviews of authentication and authorization are shown to webhooks.
	Reviews bool
	Metrics *Metrics // nil disables metrics
	// Report is called when a webhook is spared or recovers; it must not block.
	Report func(State)
	Logger *slog.Logger
}

// placed is a webhook at its place among all that are stored.
type placed struct {
	*hook
	index int
}

// source contains the webhooks of all configurations of a kind, in order: those of files first,
// sorted by the name of the configuration, then in the order of the configuration.
type source struct {
	config *Config

	mu sync.Mutex
	// stored are the webhooks of objects, static those of files, by configuration.
	stored, static map[string][]*hook
	// index contains all webhooks, staticIndex those of files, which alone apply to admission
	// configuration.
	index, staticIndex atomic.Pointer[match.Index[placed]]
}

func newSource(config *Config) *source {
	s := &source{config: config, stored: map[string][]*hook{}, static: map[string][]*hook{}}
	s.arrange()
	return s
}

func (s *source) set(configuration string, specs []admissionregistrationv1.MutatingWebhook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[configuration] = s.config.newHooks(configuration, specs, s.stored[configuration])
}

// setStatic replaces the configurations of files.
func (s *source) setStatic(configurations map[string][]admissionregistrationv1.MutatingWebhook) {
	s.mu.Lock()
	static := make(map[string][]*hook, len(configurations))
	for name, specs := range configurations {
		static[name] = s.config.newHooks(name, specs, s.static[name])
	}
	for name, hooks := range s.static {
		if _, kept := configurations[name]; !kept {
			s.closeAll(hooks)
		}
	}
	s.static = static
	s.mu.Unlock()
	s.arrange()
}

func (s *source) closeAll(hooks []*hook) {
	for _, h := range hooks {
		h.close()
		s.config.Metrics.gone(h)
	}
}

func (s *source) remove(configuration string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeAll(s.stored[configuration])
	delete(s.stored, configuration)
}

// arrange rebuilds the indexes.
func (s *source) arrange() {
	s.mu.Lock()
	defer s.mu.Unlock()
	static := placedFrom(0, s.static)
	all := placedFrom(len(static), s.stored)
	s.staticIndex.Store(match.NewIndex(asking(static)))
	s.index.Store(match.NewIndex(asking(append(static[:len(static):len(static)], all...))))
}

// placedFrom are the webhooks of configurations in order, from a place on.
func placedFrom(i int, configurations map[string][]*hook) []placed {
	var all []placed
	for _, name := range slices.Sorted(maps.Keys(configurations)) {
		for _, h := range configurations[name] {
			all = append(all, placed{h, i})
			i++
		}
	}
	return all
}

// asking returns the webhooks with rules: for a matcher, no rules match all requests.
func asking(all []placed) []placed {
	return slices.DeleteFunc(slices.Clone(all), func(h placed) bool { return len(h.spec.Rules) == 0 })
}

// objects keep the source up to date with the configurations of its kind.
func objects[T codec.Object](s *source, name string, webhooks func(T) []admissionregistrationv1.MutatingWebhook) *reflector.Objects[T] {
	return reflector.NewObjects(reflector.ObjectsConfig[T]{
		Name: name, Logger: s.config.Logger, Done: s.arrange,
		Set:    func(c T) { s.set(c.GetName(), webhooks(c)) },
		Remove: func(name types.NamespacedName) { s.remove(name.Name) },
	})
}

// asMutating are validating webhooks in the shape of mutating ones.
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
