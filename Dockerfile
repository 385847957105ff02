# The service in a container, on CPUs. docs/guides/deploy.md describes it.
#
#   make dist && docker build -t nutime .
#   docker run --rm -p 127.0.0.1:8000:8000 -e NUTIME_TOKEN=secret -v ./model:/model:ro nutime /model --host 0.0.0.0
FROM python:3.12-slim
ARG TORCH="torch --index-url https://download.pytorch.org/whl/cpu"
RUN pip install --no-cache-dir $TORCH
COPY dist/*.whl /tmp/dist/
RUN pip install --no-cache-dir "$(ls /tmp/dist/*.whl)[serve]"
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin nutime
USER 10001
WORKDIR /tmp
EXPOSE 8000
HEALTHCHECK --start-period=60s --timeout=5s CMD python -c "import os; from urllib.request import Request, urlopen; \
urlopen(Request('http://127.0.0.1:8000/ready', headers={'Authorization': 'Bearer ' + os.environ['NUTIME_TOKEN']}))"
ENTRYPOINT ["nutime", "serve"]
CMD ["nutime-base", "--host", "0.0.0.0"]
