// Package authorization declares the reviews of authorization.k8s.io. The authorizer is provided by
// builtin.Env.
package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// V1 returns the group version authorization.k8s.io/v1.
func V1() builtin.Group {
	gv := authorizationv1.SchemeGroupVersion
	local := &codec.Kind{Hub: builtin.VirtualVersion[authorizationv1.LocalSubjectAccessReview](gv.WithKind("LocalSubjectAccessReview"))}
	self := &codec.Kind{Hub: builtin.VirtualVersion[authorizationv1.SelfSubjectAccessReview](gv.WithKind("SelfSubjectAccessReview"))}
	rules := &codec.Kind{Hub: builtin.VirtualVersion[authorizationv1.SelfSubjectRulesReview](gv.WithKind("SelfSubjectRulesReview"))}
	subject := &codec.Kind{Hub: builtin.VirtualVersion[authorizationv1.SubjectAccessReview](gv.WithKind("SubjectAccessReview"))}
	return builtin.Group{GroupVersion: gv, Resources: []builtin.Entry{
		builtin.Virtual{
			Name: "localsubjectaccessreviews", Version: local.Hub, Kind: local, Namespaced: true,
			Storage: func(env *builtin.Env) rest.Storage { return accessReviews{env, local, openLocal} },
		},
		builtin.Virtual{
			Name: "selfsubjectaccessreviews", Version: self.Hub, Kind: self,
			Storage: func(env *builtin.Env) rest.Storage { return accessReviews{env, self, openSelf} },
		},
		builtin.Virtual{
			Name: "selfsubjectrulesreviews", Version: rules.Hub,
			Storage: func(env *builtin.Env) rest.Storage { return rulesReviews{env, rules} },
		},
		builtin.Virtual{
			Name: "subjectaccessreviews", Version: subject.Hub, Kind: subject,
			Storage: func(env *builtin.Env) rest.Storage { return accessReviews{env, subject, openSubject} },
		},
	}}
}
