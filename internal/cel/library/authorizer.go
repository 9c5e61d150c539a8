package library

import (
	"context"
	"math"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// AuthorizerType is the type of the variable that expressions ask permissions with.
func AuthorizerType() *cel.Type { return cel.ObjectType("kubernetes.authorization.Authorizer") }

// ResourceCheckType is the type of a question about a resource, which a variable can have
// too: the resource that is requested.
func ResourceCheckType() *cel.Type { return cel.ObjectType("kubernetes.authorization.ResourceCheck") }

func pathCheckType() *cel.Type  { return cel.ObjectType("kubernetes.authorization.PathCheck") }
func groupCheckType() *cel.Type { return cel.ObjectType("kubernetes.authorization.GroupCheck") }
func decisionType() *cel.Type   { return cel.ObjectType("kubernetes.authorization.Decision") }

// Authorizer is the library of authorization checks:
//
// <Authorizer>.path(<string>) <PathCheck> <Authorizer>.group(<string>) <GroupCheck>
// <Authorizer>.serviceAccount(<string>, <string>) <Authorizer> of another user: namespace and name
// <GroupCheck>.resource(<string>) <ResourceCheck> <ResourceCheck>.subresource(<string>),
// .namespace(<string>), .name(<string>), .fieldSelector(<string>), .labelSelector(<string>)
// <ResourceCheck> <PathCheck>.check(<string>), <ResourceCheck>.check(<string>) <Decision> for a
// verb <Decision>.allowed() <bool>, .reason() <string>, .errored() <bool>, .error() <string>
//
// All does not include it, because only admission expressions have it. Permissions creates the
// initial values.
func Authorizer() cel.EnvOption {
	options := append(checkOptions(), decisionOptions()...)
	return cel.Lib(library{name: "kubernetes.authz", options: options})
}

// checkOptions returns the functions that build and evaluate a check.
func checkOptions() []cel.EnvOption {
	resource, text := ResourceCheckType(), cel.StringType
	detail := func(name, overload string, set func(*resourceCheck, string)) cel.EnvOption {
		return member(name, overload, resource, signature(resource, text), binary(func(c resourceCheck, s string) ref.Val {
			set(&c, s)
			return resourceCheckValue(c)
		}))
	}
	return []cel.EnvOption{
		member("path", "authorizer_path", pathCheckType(), signature(AuthorizerType(), text), binary(newPathCheck)),
		member("group", "authorizer_group", groupCheckType(), signature(AuthorizerType(), text), binary(newGroupCheck)),
		member("serviceAccount", "authorizer_serviceaccount", AuthorizerType(), signature(AuthorizerType(), text, text),
			cel.FunctionBinding(asServiceAccount)),
		member("resource", "groupcheck_resource", resource, signature(groupCheckType(), text), binary(newResourceCheck)),
		detail("subresource", "resourcecheck_subresource", func(c *resourceCheck, s string) { c.subresource = s }),
		detail("namespace", "resourcecheck_namespace", func(c *resourceCheck, s string) { c.namespace = s }),
		detail("name", "resourcecheck_name", func(c *resourceCheck, s string) { c.name = s }),
		detail("fieldSelector", "authorizer_fieldselector", func(c *resourceCheck, s string) { c.fieldSelector = s }),
		detail("labelSelector", "authorizer_labelselector", func(c *resourceCheck, s string) { c.labelSelector = s }),
		member("check", "pathcheck_check", decisionType(), signature(pathCheckType(), text), binary(func(c pathCheck, verb string) ref.Val {
			return c.of.ask(question{verb: verb, path: c.path})
		})),
		member("check", "resourcecheck_check", decisionType(), signature(resource, text), binary(func(c resourceCheck, verb string) ref.Val {
			c.verb = verb
			return c.of.ask(c.question)
		})),
	}
}

// decisionOptions are the functions that look at an answer.
func decisionOptions() []cel.EnvOption {
	part := func(name string, result *cel.Type, part func(decision) ref.Val) cel.EnvOption {
		return member(name, "decision_"+name, result, signature(decisionType()), unary(part))
	}
	return []cel.EnvOption{
		part("allowed", cel.BoolType, func(d decision) ref.Val { return types.Bool(d.decision == authorizer.DecisionAllow) }),
		part("reason", cel.StringType, func(d decision) ref.Val { return types.String(d.reason) }),
		part("errored", cel.BoolType, func(d decision) ref.Val { return types.Bool(d.err != nil) }),
		part("error", cel.StringType, func(d decision) ref.Val {
			if d.err == nil {
				return types.String("")
			}
			return types.String(d.err.Error())
		}),
	}
}

func member(name, overload string, result *cel.Type, of []*cel.Type, binding cel.OverloadOpt) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload(overload, of, result, binding))
}

// Permissions evaluates the authorization checks of one request, for its user and for service
// accounts. It caches results, so a check in several expressions is evaluated once. It is safe for
// concurrent use.
type Permissions struct {
	ctx        context.Context // of the request
	user       *request.User
	authorizer authorizer.Authorizer

	mu      sync.Mutex
	answers map[question]decision
}

// NewPermissions returns the permissions that a user has by an authorizer.
func NewPermissions(ctx context.Context, by authorizer.Authorizer, user *request.User) *Permissions {
	return &Permissions{ctx: ctx, user: user, authorizer: by}
}

// Authorizer is the variable for the user.
func (p *Permissions) Authorizer() ref.Val {
	return askerValue(asker{permissions: p, user: p.user})
}

// Resource is the variable for the user and one resource.
func (p *Permissions) Resource(group, resource, subresource, namespace, name string) ref.Val {
	return resourceCheckValue(resourceCheck{of: asker{permissions: p, user: p.user}, question: question{
		group: group, resource: resource, subresource: subresource, namespace: namespace, name: name,
	}})
}

// question is a check; for a resource if it has one.
type question struct {
	account                                       string // the service account that it is about; "": the user
	verb, path                                    string
	group, resource, subresource, namespace, name string
	fieldSelector, labelSelector                  string
}

func (q *question) attributes(user *request.User) authorizer.Attributes {
	if q.resource == "" {
		return authorizer.Attributes{User: user, Verb: q.verb, Path: q.path}
	}
	a := authorizer.Attributes{
		User: user, Verb: q.verb, ResourceRequest: true, APIGroup: q.group, APIVersion: "*",
		Resource: q.resource, Subresource: q.subresource, Namespace: q.namespace, Name: q.name,
	}
	if q.fieldSelector != "" {
		selector, err := fields.ParseSelector(q.fieldSelector)
		if err == nil {
			a.FieldSelectorRequirements = selector.Requirements()
		}
		a.FieldSelectorParsingErr = err
	}
	if q.labelSelector != "" {
		a.LabelSelectorRequirements, a.LabelSelectorParsingErr = labels.ParseToRequirements(q.labelSelector)
	}
	return a
}

// asker evaluates checks for a user.
type asker struct {
	permissions *Permissions
	user        *request.User
	account     string // its name, if it is a service account that an expression named
}

type pathCheck struct {
	of   asker
	path string
}

type groupCheck struct {
	of    asker
	group string
}

type resourceCheck struct {
	of asker
	question
}

type decision struct {
	decision authorizer.Decision
	reason   string
	err      error
}

func (c asker) ask(q question) ref.Val {
	q.account = c.account
	p := c.permissions
	p.mu.Lock()
	have, asked := p.answers[q]
	p.mu.Unlock()
	if asked {
		return decisionValue(have)
	}
	var d decision
	attributes := q.attributes(c.user)
	d.decision, d.reason, d.err = p.authorizer.Authorize(p.ctx, &attributes)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers == nil {
		p.answers = map[question]decision{}
	}
	p.answers[q] = d
	return decisionValue(d)
}

func askerValue(c asker) ref.Val                 { return opaque(AuthorizerType(), c) }
func resourceCheckValue(c resourceCheck) ref.Val { return opaque(ResourceCheckType(), c) }
func decisionValue(d decision) ref.Val           { return opaque(decisionType(), d) }

// opaque returns a value that can only be passed to functions. It is not equal to any value.
func opaque[T any](t *cel.Type, v T) ref.Val {
	never := func(T, T) bool { return false }
	return (&kind[T]{name: t.TypeName(), typ: t, equal: never}).of(v)
}

func newPathCheck(c asker, path string) ref.Val {
	if strings.TrimSpace(path) == "" {
		return types.NewErr("path must not be empty")
	}
	return opaque(pathCheckType(), pathCheck{c, path})
}

func newGroupCheck(c asker, group string) ref.Val {
	return opaque(groupCheckType(), groupCheck{c, group})
}

func newResourceCheck(c groupCheck, resource string) ref.Val {
	if strings.TrimSpace(resource) == "" {
		return types.NewErr("resource must not be empty")
	}
	return resourceCheckValue(resourceCheck{of: c.of, question: question{group: c.group, resource: resource}})
}

func asServiceAccount(args ...ref.Val) ref.Val {
	c, ok := argument[asker](args[0])
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	namespace, ok := argument[string](args[1])
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[1])
	}
	name, ok := argument[string](args[2])
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[2])
	}
	if len(apivalidation.ValidateServiceAccountName(name, false)) > 0 {
		return types.NewErr("Invalid service account name")
	}
	if len(apivalidation.ValidateNamespaceName(namespace, false)) > 0 {
		return types.NewErr("Invalid service account namespace")
	}
	c.account = request.ServiceAccountUser(namespace, name)
	c.user = &request.User{Name: c.account, Groups: request.ServiceAccountGroups(namespace)}
	return askerValue(c)
}

// checkCost is that of a question to an authorizer, which may be a webhook: an expression
// can afford two.
const checkCost = 350_000

func checkPrice() price {
	return price{actual: func(madeCall) *uint64 { return exactly(checkCost) }}
}

// selectorPrice is that of reading a selector into requirements, of which there is at
// most one for two characters.
func selectorPrice() price {
	return price{actual: func(c madeCall) *uint64 {
		if len(c.args) < 2 {
			return nil
		}
		length := float64(size(c.args[1]))
		requirements := math.Ceil(length/2) * (common.ListCreateBaseCost + common.StructCreateBaseCost)
		return exactly(common.ListCreateBaseCost + readCost(uint64(length), 1) + uint64(requirements))
	}}
}
