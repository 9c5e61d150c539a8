package library

import (
	"net/url"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// URLs returns the library of URLs:
//
//	url(<string>) <URL>             an absolute URL or absolute path; an error for other strings
//	isURL(<string>) <bool>
//	<URL>.getScheme() <string>      this and the following: "" if the URL has no such part
//	<URL>.getHost() <string>        with the port
//	<URL>.getHostname() <string>    without the port; IPv6 addresses are without brackets
//	<URL>.getPort() <string>
//	<URL>.getEscapedPath() <string>
//	<URL>.getQuery() <map<string, list<string>>>
func URLs() cel.EnvOption {
	urls := &kind[*url.URL]{
		name:  "URL",
		typ:   cel.ObjectType(urlTypeName),
		equal: func(a, b *url.URL) bool { return a.String() == b.String() },
	}
	part := func(name, id string, part func(*url.URL) string) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(id, signature(urls.typ), cel.StringType,
			unary(func(u *url.URL) ref.Val { return types.String(part(u)) })))
	}
	return cel.Lib(library{name: "kubernetes.urls", options: []cel.EnvOption{
		cel.Function("url", cel.Overload("string_to_url", signature(cel.StringType), urls.typ, unary(func(s string) ref.Val {
			u, err := parseURL(s)
			if err != nil {
				return types.NewErr("URL parse error during conversion from string: %v", err)
			}
			return urls.wrap(u)
		}))),
		cel.Function("isURL", cel.Overload("is_url_string", signature(cel.StringType), cel.BoolType, canParse(url.ParseRequestURI))),
		part("getScheme", "url_get_scheme", func(u *url.URL) string { return u.Scheme }),
		part("getHost", "url_get_host", func(u *url.URL) string { return u.Host }),
		part("getHostname", "url_get_hostname", (*url.URL).Hostname),
		part("getPort", "url_get_port", (*url.URL).Port),
		part("getEscapedPath", "url_get_escaped_path", (*url.URL).EscapedPath),
		cel.Function("getQuery", cel.MemberOverload("url_get_query", signature(urls.typ),
			cel.MapType(cel.StringType, cel.ListType(cel.StringType)), unary(query))),
	}})
}

// parseURL parses an absolute URL or absolute path. url.ParseRequestURI determines which strings are valid, but
// treats a fragment as part of the path or query. The result is therefore that of url.Parse.
func parseURL(s string) (*url.URL, error) {
	if _, err := url.ParseRequestURI(s); err != nil {
		return nil, err
	}
	return url.Parse(s)
}

func query(u *url.URL) ref.Val {
	values := u.Query()
	entries := make(map[ref.Val]ref.Val, len(values))
	for key, of := range values {
		entries[types.String(key)] = types.NewStringList(types.DefaultTypeAdapter, of)
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, entries)
}

// urlCostModel returns the cost model for reading a string. The URL has the same size as the string.
func urlCostModel() costModel {
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if len(c.args) != 1 {
				return nil
			}
			s := c.size(c.args[0])
			return callEstimateWithSize(s.MultiplyByCostFactor(traversal), s)
		},
		actual: readCostModel(1).actual,
	}
}
