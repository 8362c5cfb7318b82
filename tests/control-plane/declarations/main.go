// Command declarations prints, as JSON, what the API server of this module declares, defaults and accepts: the types
// of a Pod, the defaults of sample pods, for each value of a pod in pods.json the replacements that it accepts, and for
// each pod in existing.json the values that it refuses next to those of the pod.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
)

//go:embed pods.json
var samplePods []byte

//go:embed existing.json
var existingPods []byte

func main() {
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	version, folder := kubernetes()
	output := map[string]any{
		"version":    version,
		"types":      types(folder),
		"defaults":   defaults(),
		"candidates": candidates,
		"accepted":   accepted(),
		"refused":    refused(),
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	check(encoder.Encode(output))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// kubernetes returns the version of Kubernetes and the folder of its sources.
func kubernetes() (version, folder string) {
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "k8s.io/kubernetes").Output()
	check(err)
	version, folder, _ = strings.Cut(strings.TrimSpace(string(output)), " ")
	return version, folder
}

// field is what the API declares for a field.
type field struct {
	Keys     []string `json:"keys,omitempty"`
	MergeKey string   `json:"mergeKey,omitempty"`
	// DropsEmpty says that the API server returns no empty value.
	DropsEmpty bool `json:"dropsEmpty,omitempty"`
}

// types returns the fields of the types of a Pod by the names of the types.
func types(folder string) map[string]map[string]field {
	text, err := os.ReadFile(filepath.Join(folder, "api/openapi-spec/v3/api__v1_openapi.json"))
	check(err)
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Keys     []string `json:"x-kubernetes-list-map-keys"`
					MergeKey string   `json:"x-kubernetes-patch-merge-key"`
				}
			}
		}
	}
	check(json.Unmarshal(text, &document))
	found := map[string]map[string]field{}
	var visit func(kind reflect.Type)
	visit = func(kind reflect.Type) {
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map {
			kind = kind.Elem()
		}
		if kind.Kind() != reflect.Struct || !strings.HasPrefix(kind.PkgPath(), "k8s.io/api/core") || found[kind.Name()] != nil {
			return
		}
		fields := map[string]field{}
		found[kind.Name()] = fields
		schema := document.Components.Schemas["io.k8s.api.core.v1."+kind.Name()]
		eachField(kind, func(name string, member reflect.StructField) {
			declared := schema.Properties[name]
			fields[name] = field{declared.Keys, declared.MergeKey, dropsEmpty(member)}
			visit(member.Type)
		})
	}
	visit(reflect.TypeFor[v1.Pod]())
	return found
}

// eachField calls for each field of a type by its name in JSON, with the fields of inline types.
func eachField(kind reflect.Type, call func(name string, member reflect.StructField)) {
	for member := range kind.Fields() {
		name, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		if name == "" && strings.Contains(options, "inline") {
			eachField(member.Type, call)
		} else if name != "" {
			call(name, member)
		}
	}
}

func dropsEmpty(member reflect.StructField) bool {
	switch member.Type.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return strings.Contains(member.Tag.Get("json"), ",omitempty")
	}
	return false
}

// sample is a pod before and after defaulting.
type sample struct {
	Before *v1.Pod `json:"before"`
	After  *v1.Pod `json:"after"`
}

// defaults returns two pods with an object in each field: one without values, and one with empty ones.
func defaults() []sample {
	var samples []sample
	for _, scalars := range []bool{false, true} {
		pod := &v1.Pod{}
		fill(reflect.ValueOf(pod).Elem(), scalars)
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "without-source"})
		after := pod.DeepCopy()
		legacyscheme.Scheme.Default(after)
		samples = append(samples, sample{pod, after})
	}
	return samples
}

// undescribed are the fields that the tables do not describe.
var undescribed = map[string]bool{
	"Status": true, "EphemeralContainers": true, "ManagedFields": true, "OS": true, "SchedulingGroup": true,
	"WindowsOptions": true, "ResizePolicy": true, "RestartPolicyRules": true, "DataSource": true, "DataSourceRef": true,
	"ClusterTrustBundle": true, "PodCertificate": true, "Sleep": true,
	"GCEPersistentDisk": true, "AWSElasticBlockStore": true, "GitRepo": true, "ISCSI": true, "Glusterfs": true,
	"RBD": true, "FlexVolume": true, "Cinder": true, "CephFS": true, "Flocker": true, "FC": true, "AzureFile": true,
	"VsphereVolume": true, "Quobyte": true, "AzureDisk": true, "PhotonPersistentDisk": true, "PortworxVolume": true,
	"ScaleIO": true, "StorageOS": true,
}

// fill puts an object into each field that can have one, an entry into each list, and with scalars a value that is
// empty into each field that can be without.
func fill(value reflect.Value, scalars bool) {
	switch value.Kind() {
	case reflect.Struct:
		for index := range value.NumField() {
			member := value.Type().Field(index)
			if member.IsExported() && !undescribed[member.Name] && member.Type.PkgPath() != "k8s.io/apimachinery/pkg/api/resource" {
				fill(value.Field(index), scalars)
			}
		}
	case reflect.Pointer:
		object := value.Type().Elem().Kind() == reflect.Struct
		opaque := value.Type().Elem().Name() == "Time" || value.Type().Elem().Name() == "Quantity"
		if !opaque && (object || scalars) {
			value.Set(reflect.New(value.Type().Elem()))
			fill(value.Elem(), scalars)
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(value.Index(0), scalars)
	}
}

// accepted returns, for each pod of pods.json and each pointer to one of its values, a bit for each candidate: 1 if the
// API server accepts the pod with that value instead. The last bit is for a pod without the value. The bits are written
// as a hexadecimal number, the first as the highest bit of the first digit.
func accepted() []map[string]string {
	var pods []map[string]any
	check(json.Unmarshal(samplePods, &pods))
	var results []map[string]string
	for index, pod := range pods {
		if message := refusal(pod); message != "" {
			check(fmt.Errorf("pod %d of pods.json: %s", index, message))
		}
		result := map[string]string{}
		walk(pod, "", func(pointer string, set func(any), remove func()) {
			var bits []byte
			try := func(change func()) {
				change()
				if refusal(pod) == "" {
					bits = append(bits, 1)
				} else {
					bits = append(bits, 0)
				}
			}
			for _, candidate := range candidates {
				try(func() { set(candidate) })
			}
			try(remove)
			result[pointer] = hexadecimal(bits)
		})
		results = append(results, result)
	}
	return results
}

func hexadecimal(bits []byte) string {
	for len(bits)%4 != 0 {
		bits = append(bits, 0)
	}
	var digits strings.Builder
	for index := 0; index < len(bits); index += 4 {
		digit := bits[index]<<3 | bits[index+1]<<2 | bits[index+2]<<1 | bits[index+3]
		fmt.Fprintf(&digits, "%x", digit)
	}
	return digits.String()
}

// walk calls for each value below a value that is an object or a list; what the call changes is changed back.
func walk(value any, pointer string, call func(pointer string, set func(any), remove func())) {
	switch value := value.(type) {
	case map[string]any:
		var names []string
		for name := range value {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			below := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			original := value[name]
			call(below, func(other any) { value[name] = other }, func() { delete(value, name) })
			value[name] = original
			walk(original, below, call)
		}
	case []any:
		for index, original := range value {
			below := pointer + "/" + strconv.Itoa(index)
			call(below, func(other any) { value[index] = other }, func() { value[index] = original })
			value[index] = original
			walk(original, below, call)
		}
	}
}

// addition is a value at a place of a pod.
type addition struct {
	Pointer string `json:"pointer"`
	Value   any    `json:"value"`
}

// holders are the objects whose fields are set one by one.
var holders = []string{
	"/spec", "/spec/affinity", "/spec/affinity/nodeAffinity", "/spec/affinity/podAffinity", "/spec/affinity/podAntiAffinity",
	"/spec/securityContext", "/spec/containers/0", "/spec/containers/0/securityContext",
	"/spec/containers/0/securityContext/capabilities", "/spec/initContainers/0",
}

// references are fields whose entries name other entries of the pod.
var references = map[string]bool{
	"containers": true, "initContainers": true, "volumes": true, "resourceClaims": true, "volumeMounts": true, "resources": true, "affinity": true,
	"securityContext": true, "name": true, "image": true,
}

// additions returns the values of the pods in pods.json, and for each that is true or false both.
func additions() []addition {
	var pods []any
	check(json.Unmarshal(samplePods, &pods))
	var found []addition
	seen := map[string]bool{}
	for _, pod := range pods {
		walk(pod, "", func(pointer string, _ func(any), _ func()) {
			index := strings.LastIndex(pointer, "/")
			if !slices.Contains(holders, pointer[:index]) || references[pointer[index+1:]] {
				return
			}
			value := at(pod, pointer)
			values := []any{value}
			if _, boolean := value.(bool); boolean {
				values = []any{true, false}
			}
			for _, value := range values {
				key := fmt.Sprint(pointer, value)
				if !seen[key] {
					found = append(found, addition{pointer, value})
				}
				seen[key] = true
			}
		})
	}
	return found
}

// at returns the value at a pointer, or nil.
func at(value any, pointer string) any {
	for _, step := range strings.Split(pointer, "/")[1:] {
		switch holder := value.(type) {
		case map[string]any:
			value = holder[step]
		case []any:
			index, _ := strconv.Atoi(step)
			if index >= len(holder) {
				return nil
			}
			value = holder[index]
		default:
			return nil
		}
	}
	return value
}

// refused returns, for each pod of existing.json, the additions that the API server refuses in it, be it in place of
// another value or of none.
func refused() [][]addition {
	var pods []any
	check(json.Unmarshal(existingPods, &pods))
	results := [][]addition{}
	for index, pod := range pods {
		if message := refusal(pod.(map[string]any)); message != "" {
			check(fmt.Errorf("pod %d of existing.json: %s", index, message))
		}
		result := []addition{}
		for _, addition := range additions() {
			changed := with(pod, strings.Split(addition.Pointer, "/")[1:], addition.Value)
			if changed != nil && refusal(changed.(map[string]any)) != "" {
				result = append(result, addition)
			}
		}
		results = append(results, result)
	}
	return results
}

// with returns a copy of a value with another value at a path, or nil where a list has no such entry.
func with(value any, path []string, addition any) any {
	if len(path) == 0 {
		return addition
	}
	switch holder := value.(type) {
	case []any:
		index, _ := strconv.Atoi(path[0])
		if index >= len(holder) {
			return nil
		}
		entries := slices.Clone(holder)
		entries[index] = with(holder[index], path[1:], addition)
		return entries
	case map[string]any:
		below := with(holder[path[0]], path[1:], addition)
		if below == nil {
			return nil
		}
		fields := maps.Clone(holder)
		fields[path[0]] = below
		return fields
	}
	if _, err := strconv.Atoi(path[0]); err == nil {
		return nil
	}
	below := with(nil, path[1:], addition)
	if below == nil {
		return nil
	}
	return map[string]any{path[0]: below}
}

// refusal returns the reason for which the API server refuses a pod, or nothing.
func refusal(object map[string]any) string {
	text, err := json.Marshal(object)
	check(err)
	pod := &v1.Pod{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(pod); err != nil {
		return err.Error()
	}
	pod.Name = "pod"
	pod.Namespace = "namespace"
	pod.Spec.ServiceAccountName = "default"
	legacyscheme.Scheme.Default(pod)
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		return err.Error()
	}
	options := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
	options.ResourceIsPod = true
	if err := validation.ValidatePodCreate(internal, options).ToAggregate(); err != nil {
		return err.Error()
	}
	return ""
}
