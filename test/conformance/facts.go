package conformance

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fact is the expected discovery information about a resource or subresource. A hash that is empty or "?" is
// not compared.
type Fact struct {
	GroupVersion string // "v1", "apps/v1"
	Name         string // "pods", "pods/status"
	Kind         string
	Namespaced   string // "true", "false"; unset for subresources
	Singular     string
	ShortNames   string // sorted, comma-separated; Categories and Verbs as well
	Categories   string
	Verbs        string
	Hash         string
}

// Key returns the key of the resource, such as "apps/v1/deployments".
func (f Fact) Key() string { return f.GroupVersion + "/" + f.Name }

// collection returns the URL path of the collection. namespace is used only if the resource is namespaced.
func (f Fact) collection(namespace string) string {
	path := "/apis/" + f.GroupVersion
	if !strings.Contains(f.GroupVersion, "/") {
		path = "/api/" + f.GroupVersion
	}
	if f.Namespaced == "true" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + f.Name
}

// ReadFacts reads a table of resources and a table of subresources. The parameters are paths of files.
func ReadFacts(resources, subresources string) ([]Fact, error) {
	var facts []Fact
	err := eachRow(resources, 10, func(r []string) {
		facts = append(facts, Fact{
			GroupVersion: groupVersion(r[0], r[1]), Name: r[2], Kind: r[3], Namespaced: r[4], Singular: r[5],
			ShortNames: sortedList(r[6]), Categories: sortedList(r[7]), Verbs: sortedList(r[8]), Hash: r[9],
		})
	})
	if err != nil {
		return nil, err
	}
	err = eachRow(subresources, 5, func(r []string) {
		facts = append(facts, Fact{GroupVersion: groupVersion(r[0], r[1]), Name: r[2], Kind: r[3], Verbs: sortedList(r[4])})
	})
	return facts, err
}

func groupVersion(group, version string) string {
	if group == "core" {
		return version
	}
	return group + "/" + version
}

func sortedList(text string) string {
	if text == "-" {
		return ""
	}
	parts := strings.Split(text, ",")
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// eachRow calls row with the columns of each line of a tab-separated table. Lines that start with # are
// comments.
func eachRow(path string, columns int, row func([]string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") || lines.Text() == "" {
			continue
		}
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != columns {
			return fmt.Errorf("%s: %q has %d columns, want %d", path, lines.Text(), len(fields), columns)
		}
		row(fields)
	}
	return lines.Err()
}

// FactsOf returns the contents of discovery documents as facts, keyed by Fact.Key.
func FactsOf(lists []*metav1.APIResourceList) map[string]Fact {
	facts := map[string]Fact{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			f := Fact{
				GroupVersion: list.GroupVersion, Name: r.Name, Kind: r.Kind, Namespaced: fmt.Sprint(r.Namespaced), Singular: r.SingularName,
				ShortNames: sortedJoin(r.ShortNames), Categories: sortedJoin(r.Categories), Verbs: sortedJoin(r.Verbs), Hash: r.StorageVersionHash,
			}
			facts[f.Key()] = f
		}
	}
	return facts
}

func sortedJoin(values []string) string {
	values = slices.Clone(values)
	slices.Sort(values)
	return strings.Join(values, ",")
}

// Differences compares the fact with the actual discovery information got. It compares hashes only if withHash
// is true, because aggregated discovery does not contain them. For a subresource, it compares only the kind and
// the verbs.
func (f Fact) Differences(got Fact, withHash bool) []string {
	var differences []string
	compare := func(what, want, got string) {
		if want != got {
			differences = append(differences, fmt.Sprintf("%s %s: want %q, got %q", f.Key(), what, want, got))
		}
	}
	compare("kind", f.Kind, got.Kind)
	compare("verbs", f.Verbs, got.Verbs)
	if strings.Contains(f.Name, "/") {
		return differences
	}
	compare("namespaced", f.Namespaced, got.Namespaced)
	compare("singular", f.Singular, got.Singular)
	compare("shortNames", f.ShortNames, got.ShortNames)
	compare("categories", f.Categories, got.Categories)
	if withHash && f.Hash != "?" && f.Hash != "-" {
		compare("storageVersionHash", f.Hash, got.Hash)
	}
	return differences
}
