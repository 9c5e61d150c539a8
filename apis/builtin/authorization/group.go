// Package authorization declares the reviews of authorization.k8s.io: what a
// user may do. It decides nothing itself.
//
// Imports: apis/builtin, codec, request, rest.
package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"

	"mainstay.dev/mainstay/apis/builtin"
	"mainstay.dev/mainstay/rest"
)

// V1 is authorization.k8s.io/v1.
func V1() builtin.Group {
	gv := authorizationv1.SchemeGroupVersion
	local := builtin.VirtualVersion[authorizationv1.LocalSubjectAccessReview](gv.WithKind("LocalSubjectAccessReview"))
	self := builtin.VirtualVersion[authorizationv1.SelfSubjectAccessReview](gv.WithKind("SelfSubjectAccessReview"))
	rules := builtin.VirtualVersion[authorizationv1.SelfSubjectRulesReview](gv.WithKind("SelfSubjectRulesReview"))
	subject := builtin.VirtualVersion[authorizationv1.SubjectAccessReview](gv.WithKind("SubjectAccessReview"))
	return builtin.Group{GroupVersion: gv, Resources: []builtin.Entry{
		builtin.Virtual{
			Name: "localsubjectaccessreviews", Version: local, Namespaced: true,
			Storage: func(env *builtin.Env) rest.Storage { return accessReviews{env, local, openLocal} },
		},
		builtin.Virtual{
			Name: "selfsubjectaccessreviews", Version: self,
			Storage: func(env *builtin.Env) rest.Storage { return accessReviews{env, self, openSelf} },
		},
		builtin.Virtual{
			Name: "selfsubjectrulesreviews", Version: rules,
			Storage: func(env *builtin.Env) rest.Storage { return rulesReviews{env, rules} },
		},
		builtin.Virtual{
			Name: "subjectaccessreviews", Version: subject,
			Storage: func(env *builtin.Env) rest.Storage { return accessReviews{env, subject, openSubject} },
		},
	}}
}
