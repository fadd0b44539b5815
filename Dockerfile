# The app for compose.yaml, for one person, and (--target spaces) for Hugging Face; docs/deploying.md says how it is served.
FROM python:3.12-slim AS packages
RUN apt-get update && apt-get install --yes --no-install-recommends binutils
COPY requirements.txt ./
RUN python -m venv --without-pip /venv \
    && pip --python /venv/bin/python install --no-cache-dir --no-compile -r requirements.txt 'streamlit[auth]'
# 190 MB that the app never reads: the packages' own tests, sources in C, parts for notebooks, clients of Arrow Flight and
# of Amazon S3, and the symbols for debuggers in the largest libraries
RUN cd /venv/lib/python3.*/site-packages \
    && find . -type d -name tests -prune -exec rm -r {} + \
    && find . -name '*.px[id]' -delete -o -name '*.pyx' -delete \
    && rm -r pyarrow/include pyarrow/*flight* pyarrow/*s3* pydeck/nbextension/static plotly/labextension \
    && strip --strip-unneeded llvmlite/binding/*.so pyarrow/lib*.so* uvloop/*.so

FROM python:3.12-slim AS base
COPY --from=packages /venv /venv
WORKDIR /app
COPY . .
# Bytecode is written at the first start: in the image it would take 100 MB
ENV PATH=/venv/bin:$PATH \
    PYTHONPYCACHEPREFIX=/var/tmp/bytecode \
    OAL_DB=/data/studio.db \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_PORT=8501 \
    STREAMLIT_SERVER_ALLOWED_HOSTS="localhost 127.0.0.1" \
    MALLOC_ARENA_MAX=2
HEALTHCHECK --start-period=60s \
    CMD python -c "from urllib.request import urlopen; urlopen('http://127.0.0.1:$STREAMLIT_SERVER_PORT/_stcore/health', timeout=10)"
CMD ["streamlit", "run", "app.py"]

FROM base AS spaces
RUN useradd --uid 1000 --create-home oal && install --directory --owner oal --mode 700 /data
USER oal
ENV STREAMLIT_SERVER_PORT=7860 FORWARDED_ALLOW_IPS="*"
CMD ["sh", "-c", "STREAMLIT_SERVER_ALLOWED_HOSTS=\"$SPACE_HOST 127.0.0.1\" exec streamlit run app.py"]

FROM base AS app
RUN useradd --uid 10001 --create-home oal && install --directory --owner oal --mode 700 /data
USER oal
VOLUME /data
EXPOSE 8501
