package discovery

import (
	"strings"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
)

// parse parses groups in a format such as "apps/v1:deployments,pods apps/v2: batch/v1:jobs".
func parse(text string) []apidiscovery.APIGroupDiscovery {
	var groups []apidiscovery.APIGroupDiscovery
	for _, word := range strings.Fields(text) {
		gv, resources, _ := strings.Cut(word, ":")
		group, version, _ := strings.Cut(gv, "/")
		if len(groups) == 0 || groups[len(groups)-1].Name != group {
			g := apidiscovery.APIGroupDiscovery{}
			g.Name = group
			groups = append(groups, g)
		}
		v := apidiscovery.APIVersionDiscovery{Version: version}
		for name := range strings.SplitSeq(resources, ",") {
			v.Resources = append(v.Resources, apidiscovery.APIResourceDiscovery{Resource: name})
		}
		last := &groups[len(groups)-1]
		last.Versions = append(last.Versions, v)
	}
	return groups
}

func format(groups []apidiscovery.APIGroupDiscovery) string {
	var words []string
	for _, g := range groups {
		for _, v := range g.Versions {
			var names []string
			for _, r := range v.Resources {
				names = append(names, r.Resource)
			}
			words = append(words, g.Name+"/"+v.Version+":"+strings.Join(names, ","))
		}
	}
	return strings.Join(words, " ")
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		own    string
		others []string
		want   string
	}{
		{"a/v1:x b/v1:y", nil, "a/v1:x b/v1:y"},
		{"a/v1:x b/v1:y", []string{"a/v1:x b/v1:y"}, "a/v1:x b/v1:y"},
		{"a/v1:x c/v1:z", []string{"a/v1:x b/v1:y c/v1:z"}, "a/v1:x b/v1:y c/v1:z"},
		{"a/v1:x", []string{"a/v2:x a/v1:x,w"}, "a/v2:x a/v1:x,w"},
		{"a/v1:x,z", []string{"a/v1:x,y", "a/v1:y,z,q b/v1:y"}, "a/v1:x,y,z,q b/v1:y"},
		{"", []string{"a/v1:x"}, "a/v1:x"},
	} {
		own := parse(tt.own)
		var others [][]apidiscovery.APIGroupDiscovery
		for _, other := range tt.others {
			others = append(others, parse(other))
		}
		if got := format(merge(own, others)); got != tt.want {
			t.Errorf("%s and %q make %s, want %s", tt.own, tt.others, got, tt.want)
		}
	}
}
