"""
Configurations as they were written, and as a Triton 2.51 printed them (its python backend, no GPU).

Each is the model's name, its `config.pbtxt`, and the answer of the model configuration endpoint.
"""

PRINTED_BY_TRITON = (
    (
        "minimal",
        "",
        '{"name":"minimal","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"minimal","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "tagname",
        'backend:"python" metric_tags{key:"z" value:"1"} metric_tags{key:"a" value:"2"} metric_tags{key:"m" value:"3"}',
        '{"name":"tagname","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"tagname","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{"z":"1","a":"2","m":"3"},"parameters":{},"model_warmup":[]}',
    ),
    (
        "onlymap",
        'backend:"python" parameters{}',
        '{"name":"onlymap","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"onlymap","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{"":{"string_value":""}},"model_warmup":[]}',
    ),
    (
        "big",
        'backend:"python" instance_group{count:0 rate_limiter{} }',
        '{"name":"big","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"big_0","kind":"KIND_CPU","count":1,"rate_limiter":{"resources":[],"priority":0},"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "vp_empty",
        'backend:"python" version_policy{}',
        '{"name":"vp_empty","platform":"","backend":"python","runtime":"","version_policy":{},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"vp_empty","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "specific",
        'backend:"python" version_policy{specific{versions:[1,9223372036854775807]}}',
        '{"name":"specific","platform":"","backend":"python","runtime":"","version_policy":{"specific":{"versions":[1,9223372036854775807]}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"specific","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "allp",
        'backend:"python" version_policy{all{}}',
        '{"name":"allp","platform":"","backend":"python","runtime":"","version_policy":{"all":{}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"allp","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "dyn_empty",
        'backend:"python" max_batch_size:4 dynamic_batching{}',
        '{"name":"dyn_empty","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"dynamic_batching":{"preferred_batch_size":[4],"max_queue_delay_microseconds":0,"preserve_ordering":false,"priority_levels":0,"default_priority_level":0,"priority_queue_policy":{}},"instance_group":[{"name":"dyn_empty","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "dyn_q",
        'backend:"python" max_batch_size:4 dynamic_batching{default_queue_policy{} priority_levels:2 default_priority_level:1 priority_queue_policy{key:2 value{timeout_action:DELAY default_timeout_microseconds:18446744073709551615}} priority_queue_policy{key:1 value{}} max_queue_delay_microseconds:18446744073709551615}',
        '{"name":"dyn_q","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"dynamic_batching":{"preferred_batch_size":[4],"max_queue_delay_microseconds":18446744073709551615,"preserve_ordering":false,"priority_levels":2,"default_priority_level":1,"default_queue_policy":{"timeout_action":"REJECT","default_timeout_microseconds":0,"allow_timeout_override":false,"max_queue_size":0},"priority_queue_policy":{"2":{"timeout_action":"DELAY","default_timeout_microseconds":18446744073709551615,"allow_timeout_override":false,"max_queue_size":0},"1":{"timeout_action":"REJECT","default_timeout_microseconds":0,"allow_timeout_override":false,"max_queue_size":0}}},"instance_group":[{"name":"dyn_q","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "seq_direct",
        'backend:"python" max_batch_size:4 sequence_batching{direct{}}',
        '{"name":"seq_direct","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"sequence_batching":{"direct":{"max_queue_delay_microseconds":0,"minimum_slot_utilization":0},"max_sequence_idle_microseconds":1000000,"control_input":[],"state":[],"iterative_sequence":false},"instance_group":[{"name":"seq_direct","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "seq_none",
        'backend:"python" max_batch_size:4 sequence_batching{}',
        '{"name":"seq_none","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"sequence_batching":{"max_sequence_idle_microseconds":1000000,"control_input":[],"state":[],"iterative_sequence":false},"instance_group":[{"name":"seq_none","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "seq_oldest",
        'backend:"python" max_batch_size:4 sequence_batching{oldest{max_candidate_sequences:4} max_sequence_idle_microseconds:5000000 control_input[{name:"S" control[{kind:CONTROL_SEQUENCE_START fp32_false_true:[0,1]}]},{name:"E" control[{kind:CONTROL_SEQUENCE_END bool_false_true:[false,true]}]},{name:"C" control[{kind:CONTROL_SEQUENCE_CORRID data_type:TYPE_UINT64}]}] state[{input_name:"i" output_name:"o" data_type:TYPE_INT32 dims:[1] initial_state{name:"n" data_type:TYPE_INT32 dims:1 zero_data:true}}]}',
        '{"name":"seq_oldest","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"sequence_batching":{"oldest":{"max_candidate_sequences":4,"preferred_batch_size":[4],"max_queue_delay_microseconds":0,"preserve_ordering":false},"max_sequence_idle_microseconds":5000000,"control_input":[{"name":"S","control":[{"kind":"CONTROL_SEQUENCE_START","int32_false_true":[],"fp32_false_true":[0,1],"bool_false_true":[],"data_type":"TYPE_INVALID"}]},{"name":"E","control":[{"kind":"CONTROL_SEQUENCE_END","int32_false_true":[],"fp32_false_true":[],"bool_false_true":[false,true],"data_type":"TYPE_INVALID"}]},{"name":"C","control":[{"kind":"CONTROL_SEQUENCE_CORRID","int32_false_true":[],"fp32_false_true":[],"bool_false_true":[],"data_type":"TYPE_UINT64"}]}],"state":[{"input_name":"i","output_name":"o","data_type":"TYPE_INT32","dims":[1],"initial_state":[{"data_type":"TYPE_INT32","dims":["1"],"name":"n","zero_data":true}],"use_same_buffer_for_input_output":false,"use_growable_memory":false}],"iterative_sequence":false},"instance_group":[{"name":"seq_oldest","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "util01",
        'backend:"python" max_batch_size:2 sequence_batching{direct{minimum_slot_utilization:0.1}}',
        '{"name":"util01","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":2,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"sequence_batching":{"direct":{"max_queue_delay_microseconds":0,"minimum_slot_utilization":0.1},"max_sequence_idle_microseconds":1000000,"control_input":[],"state":[],"iterative_sequence":false},"instance_group":[{"name":"util01","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "utilnan",
        'backend:"python" max_batch_size:2 sequence_batching{direct{minimum_slot_utilization:nan}}',
        '{"name":"utilnan","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":2,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"sequence_batching":{"direct":{"max_queue_delay_microseconds":0,"minimum_slot_utilization":"NaN"},"max_sequence_idle_microseconds":1000000,"control_input":[],"state":[],"iterative_sequence":false},"instance_group":[{"name":"utilnan","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "opt",
        'backend:"python" optimization{graph{level:1} priority:PRIORITY_MAX cuda{graphs:true graph_spec{batch_size:1 input{key:"a" value{dim:[4]}} graph_lower_bound{batch_size:1 input{key:"a" value{dim:[2]}}}}} execution_accelerators{gpu_execution_accelerator[{name:"tensorrt" parameters{key:"p" value:"q"}}]} input_pinned_memory{enable:false} gather_kernel_buffer_threshold:7 eager_batching:true}',
        '{"name":"opt","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"graph":{"level":1},"priority":"PRIORITY_MAX","cuda":{"graphs":true,"busy_wait_events":false,"graph_spec":[{"batch_size":1,"input":{"a":{"dim":["4"]}},"graph_lower_bound":{"batch_size":1,"input":{"a":{"dim":["2"]}}}}],"output_copy_stream":false},"execution_accelerators":{"gpu_execution_accelerator":[{"name":"tensorrt","parameters":{"p":"q"}}],"cpu_execution_accelerator":[]},"input_pinned_memory":{"enable":false},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":7,"eager_batching":true},"instance_group":[{"name":"opt","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "ops",
        'backend:"python" model_operations{op_library_filename:["a.so"]} model_transaction_policy{} response_cache{} ',
        '{"name":"ops","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"ops","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[],"model_operations":{"op_library_filename":["a.so"]},"model_transaction_policy":{"decoupled":false},"response_cache":{"enable":false}}',
    ),
    (
        "opsdec",
        'backend:"python" model_transaction_policy{decoupled:true} model_operations{}',
        '{"name":"opsdec","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"opsdec","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[],"model_operations":{"op_library_filename":[]},"model_transaction_policy":{"decoupled":true}}',
    ),
    (
        "batchio",
        'backend:"python" max_batch_size:4 input[{name:"I" data_type:TYPE_FP32 dims:[-1] allow_ragged_batch:true}] output{name:"O" data_type:TYPE_STRING dims:[2,2] reshape{shape:[4]} label_filename:"l.txt"} batch_input{kind:BATCH_ITEM_SHAPE target_name:["B"] data_type:TYPE_FP32 source_input:"I"} batch_output{target_name:"O" kind:BATCH_SCATTER_WITH_INPUT_SHAPE source_input:"I"}',
        '{"name":"batchio","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[{"name":"I","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[-1],"is_shape_tensor":false,"allow_ragged_batch":true,"optional":false,"is_non_linear_format_io":false}],"output":[{"name":"O","data_type":"TYPE_STRING","dims":[2,2],"reshape":{"shape":[4]},"label_filename":"l.txt","is_shape_tensor":false,"is_non_linear_format_io":false}],"batch_input":[{"kind":"BATCH_ITEM_SHAPE","target_name":["B"],"data_type":"TYPE_FP32","source_input":["I"]}],"batch_output":[{"target_name":["O"],"kind":"BATCH_SCATTER_WITH_INPUT_SHAPE","source_input":["I"]}],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"batchio","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "warm",
        'backend:"python" max_batch_size:4 input{name:"I" data_type:TYPE_INT64 format:FORMAT_NHWC dims:[1,2,3] optional:true} model_warmup{name:"w" batch_size:0 inputs{key:"I" value{data_type:TYPE_INT64 dims:[1,2,3] random_data:false}}}',
        '{"name":"warm","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[{"name":"I","data_type":"TYPE_INT64","format":"FORMAT_NHWC","dims":[1,2,3],"is_shape_tensor":false,"allow_ragged_batch":false,"optional":true,"is_non_linear_format_io":false}],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"warm","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[{"name":"w","batch_size":0,"inputs":{"I":{"data_type":"TYPE_INT64","dims":[1,2,3],"random_data":false}},"count":0}]}',
    ),
    (
        "groups",
        'backend:"python" instance_group[{count:2 kind:KIND_AUTO},{name:"g" count:-3 kind:KIND_CPU passive:true host_policy:"h" rate_limiter{resources{name:"R" count:2 global:true} priority:3}},{kind:KIND_MODEL secondary_devices{kind:KIND_NVDLA device_id:5}}]',
        '{"name":"groups","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"groups_0","kind":"KIND_CPU","count":2,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""},{"name":"g","kind":"KIND_CPU","count":1,"rate_limiter":{"resources":[{"name":"R","global":true,"count":2}],"priority":3},"gpus":[],"secondary_devices":[],"profile":[],"passive":true,"host_policy":"h"},{"name":"groups_2","kind":"KIND_MODEL","count":1,"gpus":[],"secondary_devices":[{"kind":"KIND_NVDLA","device_id":"5"}],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "reshape_empty",
        'backend:"python" max_batch_size:1 input{name:"I" data_type:TYPE_BF16 dims:1 reshape{}}',
        '{"name":"reshape_empty","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":1,"input":[{"name":"I","data_type":"TYPE_BF16","format":"FORMAT_NONE","dims":[1],"reshape":{"shape":[]},"is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"reshape_empty","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "unicode",
        'backend:"python" metric_tags{key:"k" value:"é\\n\\"/\\\\\\177\\001 漢😀"} parameters{key:"b" value{}} parameters{key:"a" value{string_value:"<&>"}} cc_model_filenames{key:"7.5" value:"x"}',
        '{"name":"unicode","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"unicode","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{"7.5":"x"},"metric_tags":{"k":"é\\n\\"/\\\\\x7f\\u0001 漢😀"},"parameters":{"b":{"string_value":""},"a":{"string_value":"<&>"}},"model_warmup":[]}',
    ),
    (
        "onename2kinds",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{name:"A" control{kind:CONTROL_SEQUENCE_START int32_false_true:[0,1]} control{kind:CONTROL_SEQUENCE_END int32_false_true:[0,1]}}}',
        '{"name":"onename2kinds","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"sequence_batching":{"max_sequence_idle_microseconds":1000000,"control_input":[{"name":"A","control":[{"kind":"CONTROL_SEQUENCE_START","int32_false_true":[0,1],"fp32_false_true":[],"bool_false_true":[],"data_type":"TYPE_INVALID"},{"kind":"CONTROL_SEQUENCE_END","int32_false_true":[0,1],"fp32_false_true":[],"bool_false_true":[],"data_type":"TYPE_INVALID"}]}],"state":[],"iterative_sequence":false},"instance_group":[{"name":"onename2kinds","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "st_print",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" output_name:"t" data_type:TYPE_INT32 dims:1  initial_state{data_type:TYPE_INT32 name:"n" dims:[1] data_file:"zz2"}}}',
        '{"name":"st_print","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"sequence_batching":{"max_sequence_idle_microseconds":1000000,"control_input":[],"state":[{"input_name":"s","output_name":"t","data_type":"TYPE_INT32","dims":[1],"initial_state":[{"data_type":"TYPE_INT32","dims":["1"],"name":"n","data_file":"zz2"}],"use_same_buffer_for_input_output":false,"use_growable_memory":false}],"iterative_sequence":false},"instance_group":[{"name":"st_print","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "st_zerofalse",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" output_name:"t" data_type:TYPE_INT32 dims:1  initial_state{data_type:TYPE_INT32 name:"n" dims:[1] zero_data:false}}}',
        '{"name":"st_zerofalse","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"sequence_batching":{"max_sequence_idle_microseconds":1000000,"control_input":[],"state":[{"input_name":"s","output_name":"t","data_type":"TYPE_INT32","dims":[1],"initial_state":[{"data_type":"TYPE_INT32","dims":["1"],"name":"n","zero_data":false}],"use_same_buffer_for_input_output":false,"use_growable_memory":false}],"iterative_sequence":false},"instance_group":[{"name":"st_zerofalse","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "en_ok",
        'platform:"ensemble" max_batch_size:0 input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"echo" model_version:-1 input_map{key:"I" value:"A"} output_map{key:"O" value:"Z"}}}',
        '{"name":"en_ok","platform":"ensemble","backend":"","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[{"name":"A","data_type":"TYPE_INT32","format":"FORMAT_NONE","dims":[1],"is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],"output":[{"name":"Z","data_type":"TYPE_INT32","dims":[1],"label_filename":"","is_shape_tensor":false,"is_non_linear_format_io":false}],"batch_input":[],"batch_output":[],"ensemble_scheduling":{"step":[{"model_name":"echo","model_version":-1,"input_map":{"I":"A"},"output_map":{"O":"Z"},"model_namespace":""}]},"instance_group":[],"default_model_filename":"","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[],"model_transaction_policy":{"decoupled":false}}',
    ),
    (
        "en_file",
        'platform:"ensemble" default_model_filename:"x" metric_tags{key:"a" value:"b"} input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"echo" model_version:1 input_map{key:"I" value:"A"} output_map{key:"O" value:"Z"}}}',
        '{"name":"en_file","platform":"ensemble","backend":"","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[{"name":"A","data_type":"TYPE_INT32","format":"FORMAT_NONE","dims":[1],"is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],"output":[{"name":"Z","data_type":"TYPE_INT32","dims":[1],"label_filename":"","is_shape_tensor":false,"is_non_linear_format_io":false}],"batch_input":[],"batch_output":[],"ensemble_scheduling":{"step":[{"model_name":"echo","model_version":1,"input_map":{"I":"A"},"output_map":{"O":"Z"},"model_namespace":""}]},"instance_group":[],"default_model_filename":"x","cc_model_filenames":{},"metric_tags":{"a":"b"},"parameters":{},"model_warmup":[],"model_transaction_policy":{"decoupled":false}}',
    ),
    (
        "ig_2",
        'backend:"python" instance_group{} instance_group{kind:KIND_MODEL count:0}',
        '{"name":"ig_2","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"ig_2_0","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""},{"name":"ig_2_1","kind":"KIND_MODEL","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "ig_nvdla",
        'backend:"python" instance_group{kind:KIND_CPU secondary_devices{kind:KIND_NVDLA device_id:1}}',
        '{"name":"ig_nvdla","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"ig_nvdla_0","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[{"kind":"KIND_NVDLA","device_id":"1"}],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "enum99",
        'backend:"python" input{name:"x" data_type:99 dims:1}',
        '{"name":"enum99","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[{"name":"x","data_type":99,"format":"FORMAT_NONE","dims":[1],"is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"enum99","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "x.python",
        "",
        '{"name":"x.python","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"x.python","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "customplat",
        'backend:"python" platform:"foo"',
        '{"name":"customplat","platform":"foo","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"customplat","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "u00e9",
        'backend:"python" metric_tags{key:"a" value:"\\u00e9"}',
        '{"name":"u00e9","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"u00e9","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{"a":"é"},"parameters":{},"model_warmup":[]}',
    ),
)

OVERRIDES_PRINTED_BY_TRITON = (
    (
        "j_empty",
        "{}",
        '{"name":"j_empty","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"j_empty","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "j_low",
        '{"backend":"python","maxBatchSize":"4","dynamicBatching":{}}',
        '{"name":"j_low","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"dynamic_batching":{"preferred_batch_size":[4],"max_queue_delay_microseconds":0,"preserve_ordering":false,"priority_levels":0,"default_priority_level":0,"priority_queue_policy":{}},"instance_group":[{"name":"j_low","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "j_ci",
        '{"backend":"python","input":[{"name":"a","data_type":"type_fp32","dims":["1",2.0]}]}',
        '{"name":"j_ci","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[{"name":"a","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[1,2],"is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"j_ci","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "j_num",
        '{"backend":"python","input":[{"name":"a","dataType":11,"dims":[1]}]}',
        '{"name":"j_num","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[{"name":"a","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[1],"is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"j_num","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "j_nullf",
        '{"backend":"python","platform":null}',
        '{"name":"j_nullf","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"j_nullf","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "j_dup",
        '{"backend":"python","max_batch_size":1,"max_batch_size":2}',
        '{"name":"j_dup","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":2,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"j_dup","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "j_boolstr",
        '{"backend":"python","input":[{"name":"a","data_type":"TYPE_FP32","dims":[1],"optional":"true"}]}',
        '{"name":"j_boolstr","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[{"name":"a","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[1],"is_shape_tensor":false,"allow_ragged_batch":false,"optional":true,"is_non_linear_format_io":false}],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"j_boolstr","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "j_emptymsg",
        '{"backend":"python","version_policy":{}}',
        '{"name":"j_emptymsg","platform":"","backend":"python","runtime":"","version_policy":{},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"j_emptymsg","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "j_oneofnull",
        '{"backend":"python","max_batch_size":2,"dynamic_batching":{},"sequence_batching":null}',
        '{"name":"j_oneofnull","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":2,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"dynamic_batching":{"preferred_batch_size":[2],"max_queue_delay_microseconds":0,"preserve_ordering":false,"priority_levels":0,"default_priority_level":0,"priority_queue_policy":{}},"instance_group":[{"name":"j_oneofnull","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "j_listnull",
        '{"backend":"python","input":[null]}',
        '{"name":"j_listnull","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"j_listnull","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "j_exp",
        '{"backend":"python","max_batch_size":4e0}',
        '{"name":"j_exp","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"j_exp","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
    (
        "j_low2",
        '{"backend":"python","input":[{"name":"a","data_type":"TYPE-fp32","dims":[1]}]}',
        '{"name":"j_low2","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":0,"input":[{"name":"a","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[1],"is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],"output":[],"batch_input":[],"batch_output":[],"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},"instance_group":[{"name":"j_low2","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}',
    ),
)
"""The same for the `config` parameter of load requests."""
