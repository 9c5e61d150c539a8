// Package authentication declares the reviews of authentication.k8s.io: SelfSubjectReview and TokenReview. The
// authenticator is provided by builtin.Env.
package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// V1 returns the group version authentication.k8s.io/v1.
func V1() builtin.Group {
	gv := authenticationv1.SchemeGroupVersion
	self := &codec.Kind{Hub: builtin.VirtualVersion[authenticationv1.SelfSubjectReview](gv.WithKind("SelfSubjectReview"))}
	token := &codec.Kind{Hub: builtin.VirtualVersion[authenticationv1.TokenReview](gv.WithKind("TokenReview"))}
	return builtin.Group{GroupVersion: gv, Resources: []builtin.Entry{
		builtin.Virtual{
			Name: "selfsubjectreviews", Version: self.Hub,
			Storage: func(*builtin.Env) rest.Storage { return selfReviews{self} },
		},
		builtin.Virtual{
			Name: "tokenreviews", Version: token.Hub, Kind: token,
			Storage: func(env *builtin.Env) rest.Storage { return tokenReviews{env, token} },
		},
	}}
}

func userInfo(user *request.User) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: user.Name, UID: user.UID, Groups: user.Groups}
	for key, values := range user.Extra {
		if info.Extra == nil {
			info.Extra = make(map[string]authenticationv1.ExtraValue, len(user.Extra))
		}
		info.Extra[key] = values
	}
	return info
}
